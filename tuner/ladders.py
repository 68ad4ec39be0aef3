"""Capture lists by rule of thumb: what people use in place of a solver, and what a study starts from."""

from __future__ import annotations

import numpy as np

from tuner.engines.base import AllowedSizes
from workloads.arrays import I64
from workloads.histogram import StepHistogram

Ladder = tuple[int, ...]


def powers_of_two(allowed: AllowedSizes) -> Ladder:
    """Doubling from the smallest size that the engine admits, and the largest."""
    top, multiple = allowed.largest, allowed.multiple_of
    doubling = {multiple << n for n in range(top.bit_length()) if multiple << n <= top}
    return tuple(sorted(doubling | {top // multiple * multiple}))


def quantiles(histogram: StepHistogram, candidates: I64, length: int) -> Ladder:
    """`length` candidates at equal shares of the recorded steps, each rounded up; the last covers every step.

    Args:
        candidates: int64 [N], sizes that may be captured, increasing.
    """
    cumulated = np.cumsum(histogram.steps) / histogram.total_steps
    shares = np.arange(1, length + 1) / length
    at = np.minimum(np.searchsorted(cumulated, shares - 1e-12), len(cumulated) - 1)
    return _rounded_up(histogram.sizes[at], candidates)


def padding_bounded(candidates: I64, share: float) -> Ladder:
    """The fewest candidates that leave no step up to the largest with more than `share` padded slots, where they can.

    A step of b + 1 is the one that the next bucket pads most, so that bucket may be (b + 1) / (1 - share) large.
    """
    ladder: list[int] = []
    last = 0
    while last < candidates[-1]:
        widest = int(np.searchsorted(candidates, int((last + 1) / (1.0 - share)), side="right")) - 1
        following = int(np.searchsorted(candidates, last, side="right"))
        last = int(candidates[max(widest, following)])
        ladder.append(last)
    return tuple(ladder)


def _rounded_up(sizes: I64, candidates: I64) -> Ladder:
    at = np.minimum(np.searchsorted(candidates, sizes), len(candidates) - 1)
    return tuple(int(size) for size in np.unique(candidates[at]))
