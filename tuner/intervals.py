"""Intervals of a mean over few starts, and of one mean against another: Student's t, by Welch for two groups, and
within blocks where the starts ran on several machines.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_NORMAL_975 = 1.959964
_T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # two-sided 95 %, 1 to 10 degrees


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its two-sided 95 % interval; `low` and `high` are None with a single value.

    Attributes:
        values: how many there are, one a start.
    """

    mean: float
    low: float | None
    high: float | None
    values: int


class BlockValue(NamedTuple):
    """A value and where it was measured: values of one block share what their machine adds to all of them."""

    value: float
    block: str = ""


def interval(values: Sequence[float]) -> Interval | None:
    """Of the mean of independent values; None without any."""
    if not values:
        return None
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None, 1)
    half = t_975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, len(values))


def relative_change(new: Sequence[float], old: Sequence[float]) -> Interval | None:
    """mean(new) / mean(old) - 1 of two independent groups, as a share, its spread by the delta method.

    None where a group is empty or the old mean is not above zero.
    """
    if not new or not old or (base := statistics.fmean(old)) <= 0:
        return None
    ratio = statistics.fmean(new) / base
    return _of_two(ratio - 1, new, old, 1 / base, ratio / base)


def blocked_change(new: Sequence[BlockValue], old: Sequence[BlockValue]) -> Interval | None:
    """mean(new) / mean(old) - 1 as `relative_change`, free of what the blocks differ by where both groups have values
    in each of several blocks: least squares of log(value) on block and group, Student's t on what is left.

    Two machines alike differ by a per cent, as much as two lists; each list ran on both.
    """
    values = [[item.value for item in group] for group in (new, old)]
    blocks = sorted({item.block for item in (*new, *old)})
    freedom = len(new) + len(old) - len(blocks) - 1
    crossed = {item.block for item in new} == {item.block for item in old} == set(blocks)
    if len(blocks) < 2 or not crossed or freedom < 1 or min(map(min, values)) <= 0:
        return relative_change(*values)
    rows = [(item, 1.0) for item in new] + [(item, 0.0) for item in old]
    design = np.array([[group, *(float(item.block == block) for block in blocks)] for item, group in rows])
    logs = np.log([item.value for item, _ in rows])
    solution = np.linalg.lstsq(design, logs, rcond=None)[0]
    left = logs - design @ solution
    spread = math.sqrt(float(left @ left) / freedom * float(np.linalg.inv(design.T @ design)[0, 0]))
    change, half = float(solution[0]), t_975(freedom) * spread
    return Interval(math.expm1(change), math.expm1(change - half), math.expm1(change + half), min(len(new), len(old)))


def difference(new: Sequence[float], old: Sequence[float]) -> Interval | None:
    """mean(new) - mean(old) of two independent groups; None where a group is empty."""
    if not new or not old:
        return None
    return _of_two(statistics.fmean(new) - statistics.fmean(old), new, old, 1.0, 1.0)


def _of_two(mean: float, new: Sequence[float], old: Sequence[float], new_weight: float, old_weight: float) -> Interval:
    """Around a value that changes by a weight times what the mean of a group does."""
    count = min(len(new), len(old))
    if count < 2:
        return Interval(mean, None, None, count)
    own = statistics.variance(new) / len(new) * new_weight**2
    other = statistics.variance(old) / len(old) * old_weight**2
    if own + other == 0:
        return Interval(mean, mean, mean, count)
    freedom = (own + other) ** 2 / (own**2 / (len(new) - 1) + other**2 / (len(old) - 1))
    half = t_975(max(1, math.floor(freedom))) * math.sqrt(own + other)
    return Interval(mean, mean - half, mean + half, count)


def t_975(freedom: int) -> float:
    """The quantile that a two-sided 95 % interval needs; from 11 degrees on within 0.1 %."""
    if freedom <= len(_T_975):
        return _T_975[freedom - 1]
    z = _NORMAL_975
    return z * (1 + (z**2 + 1) / (4 * freedom) + (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2))
