"""Time of every step size under a dispatch table and a profile: bucket or fallback, and the terms no list changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.cost_profile import CostProfile, FamilyCost
from tuner.dispatch import DispatchTable
from workloads.arrays import F64, I64, Bool
from workloads.histogram import StepHistogram


@dataclass(frozen=True, slots=True)
class StepCost:
    """Per step size, arrays of one shape.

    Attributes:
        bucket: int64, 0 = fallback.
        ms: float64, g of the bucket or the fallback time; nan where the profile has no fallback.
        estimated: bool, the bucket lies between measured points (or the family was not measured).
    """

    bucket: I64
    ms: F64
    estimated: Bool


def step_cost(profile: CostProfile, dispatch: DispatchTable, family: str, sizes: I64) -> StepCost:
    """Dispatch steps and look up what they cost.

    Steps that run in the graphs of another family (vLLM: PIECEWISE) cost what the profile measured for that family, or
    an estimate by the own family where it did not. A profile read inside an engine measured that family by prompts: a
    decode step takes about as long, without what the client adds to a prompt.

    Raises:
        NotFound: the profile did not measure `family`.
    """
    cost = profile.family(family)
    went = dispatch.dispatch(family, sizes)
    ms = cost.bucket_ms_at(np.maximum(went.bucket, 1))
    estimated = ~cost.measured(went.bucket)
    rule = dispatch.families.get(family)
    if rule is not None and rule.otherwise is not None and bool(went.elsewhere.any()):
        other = profile.families.get(rule.otherwise)
        if other is None:
            estimated |= went.elsewhere
        else:
            ms = np.where(went.elsewhere, other.bucket_ms_at(np.maximum(went.bucket, 1)), ms)
            estimated = np.where(went.elsewhere, ~other.measured(went.bucket), estimated)
    ms = np.where(went.fallback, cost.fallback_ms_at(sizes), ms)
    return StepCost(went.bucket, ms, estimated & ~went.fallback)


def terms_ms(cost: FamilyCost, histogram: StepHistogram) -> F64:
    """Attention and row terms of one step of every size: float64 [N]; 0 where the workload's KV tokens are unknown."""
    known = np.isfinite(histogram.kv_tokens)
    kv_tokens = np.where(known, histogram.kv_tokens, 0.0)
    return np.where(known, cost.extra_ms(histogram.sizes, kv_tokens), 0.0)


def capture_cost(cost: FamilyCost, sizes: tuple[int, ...]) -> tuple[float | None, float | None]:
    """(seconds, MiB) of capturing these sizes, fixed part and pool included.

    Sizes between two measured neighbours are interpolated; None where a neighbour's cost is unknown or missing. A
    family that is captured with another one adds nothing, whatever its sizes.
    """
    if cost.captured_with_another:
        return 0.0, 0.0
    seconds = _marginal(cost, cost.capture_s, sizes)
    mib = _marginal(cost, cost.memory_mib, sizes)
    return (
        None if seconds is None else cost.capture_fixed_s + seconds,
        None if mib is None else cost.pool_mib + mib,
    )


def _marginal(cost: FamilyCost, column: F64, sizes: tuple[int, ...]) -> float | None:
    at = np.array(sizes, dtype=np.float64)
    if len(at) == 0:
        return 0.0
    if at[-1] > cost.sizes[-1] or at[0] < cost.sizes[0]:
        return None
    # An unknown neighbour makes the interpolation nan, also at a measured size beside it; those are looked up.
    points = cost.sizes.astype(np.float64)
    right = np.searchsorted(points, at)
    exact = points[right] == at
    left = np.where(exact, right, right - 1)
    share = np.where(exact, 0.0, (at - points[left]) / np.maximum(points[right] - points[left], 1.0))
    values = np.where(exact, column[right], column[left] + share * (column[right] - column[left]))
    total = float(values.sum())
    return total if np.isfinite(total) else None
