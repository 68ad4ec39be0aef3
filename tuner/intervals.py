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

from workloads.arrays import F64

_NORMAL_975 = 1.959964
_LEAST_BESIDE = 6  # values of both groups; a slope read from fewer is chance
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
    """A value and where it was measured: values of one block share what their machine adds to all of them.

    Attributes:
        beside: something else of the same start that moves with the value, and in which the groups have no part.
    """

    value: float
    block: str = ""
    beside: float | None = None


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
    """mean(new) / mean(old) - 1 as `relative_change`, free of what else is known to move the values.

    Of what the blocks differ by, where both groups have values in each of several: two machines alike differ by a per
    cent, as much as two lists, and each list ran on both. And of what goes with `beside`, where every value has it (a
    control variate: its mean is the same in both groups but for chance). By least squares of the value's logarithm on
    group, block and logarithm of `beside`, and Student's t on what is left.
    """
    blocks, beside = _by_block(new, old), _beside((*new, *old))
    for known in ([*blocks, *beside], blocks):
        change = _regressed(new, old, known) if known else None
        if change is not None:
            return change
    return relative_change([item.value for item in new], [item.value for item in old])


def _by_block(new: Sequence[BlockValue], old: Sequence[BlockValue]) -> list[F64]:
    """A column a block, float64 [N]; none where a group lacks a block, or there is one alone."""
    blocks = sorted({item.block for item in (*new, *old)})
    crossed = len(blocks) > 1 and all({item.block for item in group} == set(blocks) for group in (new, old))
    return [np.array([float(item.block == block) for item in (*new, *old)]) for block in blocks] if crossed else []


def _beside(items: Sequence[BlockValue]) -> list[F64]:
    """The logarithm of `beside`, around its mean, float64 [N]; none where a value has none, or there are few."""
    values = [item.beside for item in items if item.beside is not None and item.beside > 0]
    if len(values) < max(len(items), _LEAST_BESIDE):
        return []
    logs = np.log(np.array(values))
    return [logs - logs.mean()]


def _regressed(new: Sequence[BlockValue], old: Sequence[BlockValue], known: Sequence[F64]) -> Interval | None:
    """Change of the group's mean logarithm by least squares; None where the columns do not leave one to be read."""
    items = (*new, *old)
    design = np.column_stack([np.array([1.0] * len(new) + [0.0] * len(old)), np.ones(len(items)), *known])
    rank = int(np.linalg.matrix_rank(design))
    freedom = len(items) - rank
    others = int(np.linalg.matrix_rank(design[:, 1:]))
    if freedom < 1 or others == rank or min(item.value for item in items) <= 0:
        return None
    logs = np.log([item.value for item in items])
    solution = np.linalg.lstsq(design, logs, rcond=None)[0]
    left = logs - design @ solution
    inverse = np.linalg.pinv(design.T @ design)  # blocks add up to the constant
    spread = math.sqrt(float(left @ left) / freedom * float(inverse[0, 0]))
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
