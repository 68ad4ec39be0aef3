"""Statistics of recorded step times: centre and spread of one size, the price of attention, the prefill curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.cost_profile import PrefillCost
from workloads.arrays import F64, I64, Bool
from workloads.traces.records import StepTrace

PARTS = 8
MIN_FIT_READINGS = 200
BINS_PER_OCTAVE = 4


@dataclass(frozen=True, slots=True)
class Fit:
    """The attention term: milliseconds per million KV tokens; 0 where the readings do not tell it."""

    ms_per_mtoken: float = 0.0

    @property
    def known(self) -> bool:
        return self.ms_per_mtoken > 0

    def terms_ms(self, kv_tokens: F64) -> F64:
        """The term of every step: float64, same shape; 0 where its KV tokens are unknown."""
        return np.where(np.isfinite(kv_tokens), kv_tokens, 0.0) * self.ms_per_mtoken * 1e-6


def centre(ms: F64, weights: I64) -> tuple[float, float]:
    """(weighted median, spread) of the readings of one size.

    The spread is the standard deviation of the medians of up to eight consecutive parts of the record, so that it says
    what another record of that length would differ by; nan with fewer than four rows.
    """
    middle = weighted_median(ms, weights)
    parts = min(PARTS, len(ms) // 2)
    if parts < 2:
        return middle, float("nan")
    medians = [
        weighted_median(part, share)
        for part, share in zip(np.array_split(ms, parts), np.array_split(weights, parts), strict=True)
    ]
    return middle, float(np.std(medians, ddof=1))


def weighted_median(values: F64, weights: I64) -> float:
    """The value that half the weight lies below, the mean of two where it lies between them."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    half = total[-1] / 2
    at = int(np.searchsorted(total, half))
    if total[at] == half and at + 1 < len(values):
        return float(values[order][at] + values[order][at + 1]) / 2
    return float(values[order][at])


def attention_fit(bucket: I64, step_ms: F64, kv_tokens: F64, weights: I64) -> Fit:
    """Least squares of time on KV tokens within buckets, taken only where it is positive and well determined: the
    slope at least four standard errors, and no bucket left without time of its own."""
    usable: Bool = (bucket > 0) & np.isfinite(kv_tokens)
    if int(usable.sum()) < MIN_FIT_READINGS:
        return Fit()
    _, group = np.unique(bucket[usable], return_inverse=True)
    share = weights[usable].astype(np.float64)
    x, y = _within(kv_tokens[usable], group, share), _within(step_ms[usable], group, share)
    power = float(share @ (x * x))
    freedom = len(x) - int(group.max()) - 2
    if power <= 0 or freedom < 1:
        return Fit()
    slope = float(share @ (x * y)) / power
    residual = y - slope * x
    error = np.sqrt(float(share @ (residual * residual)) / float(share.sum()) * len(x) / freedom / power * share.mean())
    left = step_ms[usable] - slope * kv_tokens[usable]
    if slope <= 4 * error or float(left.min()) <= 0:
        return Fit()
    return Fit(slope * 1e6)


def prefill_curve(trace: StepTrace, min_readings: int) -> PrefillCost | None:
    """Time of prefill and mixed steps by tokens, in quarter-octave bins with enough readings; None where none has."""
    mixed = [
        i for i, family in enumerate(trace.families) if family.startswith("prefill") or family == "decode_piecewise"
    ]
    rows = np.isin(trace.family_index, mixed) & np.isfinite(trace.step_ms) & (trace.step_ms > 0)
    tokens, ms, steps = trace.size[rows], trace.step_ms[rows], trace.steps[rows]
    bins = np.round(np.log2(np.maximum(tokens, 1)) * BINS_PER_OCTAVE).astype(np.int64)
    points = [
        (weighted_median(tokens[own].astype(np.float64), steps[own]), weighted_median(ms[own], steps[own]))
        for own in (bins == value for value in np.unique(bins))
        if int(steps[own].sum()) >= min_readings
    ]
    if not points:
        return None
    sizes, times = np.array(points, dtype=np.float64).T
    return PrefillCost(sizes, np.zeros(len(points)), times)


def _within(values: F64, group: I64, weights: F64) -> F64:
    """Values minus the weighted mean of their group."""
    mean = np.bincount(group, weights=values * weights) / np.bincount(group, weights=weights)
    return values - mean[group]
