"""The curve that lists are chosen on: what a step takes at most, at 95 % confidence, instead of what was read once.

The minimum of many noisy readings is biased low: a solver that reads them as they are collects the lucky ones. So it
reads the upper end of every size's interval, and a larger size counts as faster than a smaller one only where that is
more than noise. What is reported of a list stays on the readings themselves.

A profile keeps a mean and a spread of two or three starts a size, which says little about that size alone. All sizes
share one relative spread, estimated robustly over them, and a size gets its own t interval only where its spread is
more than the shared one explains. A band of one share for all sizes scales every cost alike and changes no list: what
changes lists are sizes measured less often, sizes that scatter, and inversions that do not repeat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tuner.cost_profile import FamilyCost
from workloads.arrays import F64, I64, Bool

LEVEL = 0.95
DEFAULT_SPREAD_SHARE = 0.0071
"""Relative start-to-start standard deviation where a profile states none: that of `profiles/h200-llama-3.1-8b.json`
(149 sizes, two starts each), the larger of the two shipped profiles of an H200."""

_NORMAL, _OUTLIER = 1.645, 3.09  # one-sided 95 % and 99.9 % of the normal distribution
_T_95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)  # one-sided, 1 to 10 degrees of freedom


@dataclass(frozen=True, slots=True)
class Confidence:
    """Intervals of one family's readings.

    Attributes:
        upper_ms: float64 [N], g of every size at most, at 95 % confidence.
        read: the family with the curve that lists are chosen on in place of `step_ms`: g as `upper_ms`, raised where
            an inversion does not count, and divided by the band that the most often measured sizes have, so that it
            compares with times that carry no band (a step without a graph, a price).
        spread_share: relative start-to-start standard deviation that sizes share.
        stated: that share is the profile's own start-to-start spread; False takes `DEFAULT_SPREAD_SHARE`, or the spread
            within its one start where that is wider.
        own: bool [N], sizes whose own spread is more than the shared one explains.
        lifted: bool [N], sizes that read faster than a smaller one by no more than noise, and do not count as faster.
    """

    upper_ms: F64
    read: FamilyCost
    spread_share: float
    stated: bool
    own: Bool
    lifted: Bool

    @classmethod
    def of(cls, cost: FamilyCost) -> Confidence:
        share, stated = _shared_share(cost)
        own = _scattered(cost, share)
        root = np.sqrt(cost.starts)
        shared_ms = share * cost.step_ms / root
        own_ms = np.where(own, cost.spread_ms, 0.0) / root
        g_ms = cost.bucket_ms()
        upper_ms = g_ms + np.where(own, _t_quantile(cost.starts - 1) * own_ms, _NORMAL * shared_ms)
        lift_ms = _lift(cost, g_ms, upper_ms, np.maximum(own_ms, shared_ms))
        common = 1.0 + _NORMAL * share / float(root.max())
        chosen_on_ms = np.maximum(upper_ms, lift_ms) / common + (cost.step_ms - g_ms)
        return cls(upper_ms, replace(cost, step_ms=chosen_on_ms), share, stated, own, lift_ms > upper_ms)


def _shared_share(cost: FamilyCost) -> tuple[float, bool]:
    """Relative standard deviation of one start: the median over sizes, each divided by the median that chance gives.

    Where every size was measured in one start, a spread is one within that start (parts of a log): starts differ by at
    least as much, and by no less than is usual.
    """
    known = (cost.starts > 1) & np.isfinite(cost.spread_ms)
    if not known.any():
        within = cost.spread_ms[np.isfinite(cost.spread_ms)] / cost.step_ms[np.isfinite(cost.spread_ms)]
        return max(DEFAULT_SPREAD_SHARE, float(np.median(within))) if len(within) else DEFAULT_SPREAD_SHARE, False
    freedom = cost.starts[known] - 1.0
    squares = (cost.spread_ms[known] / cost.step_ms[known]) ** 2 / (1.0 - 2.0 / (9.0 * freedom)) ** 3
    return math.sqrt(float(np.median(squares))), True


def _scattered(cost: FamilyCost, share: float) -> Bool:
    """Sizes whose own spread one in a thousand would show by chance (chi-squared, by Wilson and Hilferty)."""
    freedom = np.maximum(cost.starts - 1.0, 1.0)
    most = share * (1.0 - 2.0 / (9.0 * freedom) + _OUTLIER * np.sqrt(2.0 / (9.0 * freedom))) ** 1.5
    scattered: Bool = (cost.starts > 1) & (cost.spread_ms > most * cost.step_ms)
    return scattered


def _t_quantile(freedom: I64) -> F64:
    """One-sided 95 % of Student's distribution; nan without a degree of freedom."""
    table = np.array([math.nan, *_T_95])
    above = _NORMAL * (1.0 + (_NORMAL**2 + 1.0) / (4.0 * np.maximum(freedom, 1)))  # within 0.1 % from 11 on
    return np.where(freedom < len(table), table[np.minimum(freedom, len(table) - 1)], above)


def _lift(cost: FamilyCost, g_ms: F64, upper_ms: F64, error_ms: F64) -> F64:
    """What every size is lifted to: the slowest smaller size that it beats by no more than noise; 0 without any.

    An inversion counts where all of two or more starts show it, or the gap exceeds the band of a difference.
    """
    # No reading lies further from the mean of n than (n - 1) / sqrt(n) standard deviations.
    reach_ms = np.where(cost.starts > 1, cost.spread_ms * (cost.starts - 1) / np.sqrt(cost.starts), np.nan)
    lifted = np.zeros(len(g_ms))
    for j in range(1, len(g_ms)):
        gap_ms = g_ms[:j] - g_ms[j]
        repeats = gap_ms > reach_ms[:j] + reach_ms[j]
        noise_ms = _NORMAL * np.hypot(error_ms[:j], error_ms[j])
        doubtful = (gap_ms > 0) & (gap_ms <= noise_ms) & ~repeats
        lifted[j] = np.max(upper_ms[:j], where=doubtful, initial=0.0)
    return lifted
