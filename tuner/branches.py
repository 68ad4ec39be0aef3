"""Where a batch settles: a slow step makes a bigger batch, and a big batch may be what makes the step slow.

Requests that arrive at rate r and decode L tokens each hold n = r x L x t(n) slots, t(n) being the step time of n rows
(Little's law). Where steps above a list's last size are much slower, the equation has two stable solutions: one batch
that fits under the list and one that does not. A burst moves the service from the first to the second, and nothing
but less traffic moves it back (sglang#33483: a running median of 23 with graphs up to 128, 67 with graphs up to 32).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from workloads.arrays import F64

LEAST_JUMP_SHARE, LEAST_JUMP_ROWS = 0.25, 4
"""A batch that grows by more than this at one load has tipped over; less is the staircase of any measured curve."""


@dataclass(frozen=True, slots=True)
class Branches:
    """Settled batches of one list under one traffic.

    Attributes:
        settled: stable batches at this load, smallest first; the last is the largest batch considered where even that
            does not keep up.
        thresholds: between two branches, the batch above which a burst ends on the upper one.
        tip_load: multiple of this load from which the lowest branch ends in a jump; None where no load does that.
        tips_from, tips_to: the batch before and after that jump (None: nothing settles above).
    """

    settled: tuple[int, ...]
    thresholds: tuple[int, ...]
    tip_load: float | None
    tips_from: int | None = None
    tips_to: int | None = None


def branches(step_ms: F64, requests_per_s: float, decode_tokens: float) -> Branches:
    """Solve n = rate x tokens x t(n).

    Args:
        step_ms: float64 [N + 1], the whole step of n rows (attention and row terms included); index 0 is unused.
        requests_per_s: arrival rate at one engine.
        decode_tokens: decode steps of a mean request.
    """
    rows = np.arange(1, len(step_ms), dtype=np.float64)
    held = requests_per_s * decode_tokens * step_ms[1:] * 1e-3
    keeps_up = held < rows
    # Batches grow while more is held than runs; so they settle at the first size of every stretch that keeps up.
    begins = keeps_up & ~np.concatenate(([False], keeps_up[:-1]))
    ends = keeps_up & ~np.concatenate((keeps_up[1:], [True]))
    settled = [int(n) for n in rows[begins]] or [len(rows)]
    if not keeps_up[-1] and settled[-1] != len(rows):
        settled.append(len(rows))
    return Branches(tuple(settled), tuple(int(n) for n in rows[ends]), *_tip(rows, rows / held))


def sustained_load(step_ms: F64, requests_per_s: float, decode_tokens: float) -> F64:
    """The multiple of the load that a batch of n rows just keeps up with, n = 1..N: float64 [N].

    Where it rises with n, that batch is a stable answer to its load; where it falls, a threshold between two branches.
    """
    rows = np.arange(1, len(step_ms), dtype=np.float64)
    return rows / (requests_per_s * decode_tokens * step_ms[1:] * 1e-3)


def settled_batch(step_ms: F64, requests_per_s: float, decode_tokens: float, loads: F64) -> F64:
    """The lowest branch at multiples of the load, and nan where nothing settles: float64, shape of `loads`."""
    rows = np.arange(1, len(step_ms), dtype=np.float64)
    best = np.maximum.accumulate(sustained_load(step_ms, requests_per_s, decode_tokens))
    at = np.searchsorted(best, loads, side="right")
    return np.where(at < len(rows), rows[np.minimum(at, len(rows) - 1)], np.nan)


def _tip(rows: F64, sustained: F64) -> tuple[float | None, int | None, int | None]:
    """The first jump of the lowest branch; `sustained` is the load that every batch keeps up with."""
    best = np.maximum.accumulate(sustained)
    records = np.flatnonzero(np.concatenate(([True], best[1:] > best[:-1])))
    for here, following in pairwise(records):
        grown = rows[following] - rows[here]
        if grown >= LEAST_JUMP_ROWS and grown > LEAST_JUMP_SHARE * rows[here]:
            return float(sustained[here]), int(rows[here]), int(rows[following])
    last = int(records[-1])
    if rows[-1] - rows[last] >= LEAST_JUMP_ROWS:
        return float(sustained[last]), int(rows[last]), None
    return None, None, None
