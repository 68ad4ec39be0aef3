"""What the profile alone says of a list: where its steps run, how long they take, and its worst regret."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from services.capture.probes.records import ReplayedStep
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine
from tuner.scorecard import list_regret

Asked = Mapping[str, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A profile held to its word on one list and workload.

    The profile's starts capture all sizes and time them at one context; the lists that are compared are other lists,
    and their steps have the contexts of the workload. So nothing here was used for the profile.

    Attributes:
        step_ms: mean of the replayed steps by the profile.
        error_share: step_ms / measured - 1.
        band_share: start-to-start band of the measured mean, 2 x standard deviation / mean over the starts of this
            list; None with fewer than two.
        tolerated_share: the target of the plan, or the band where that is wider.
    """

    step_ms: float
    measured_ms: float
    error_share: float
    band_share: float | None
    tolerated_share: float

    @property
    def held(self) -> bool:
        return abs(self.error_share) <= self.tolerated_share


def prediction_of(step_ms: float | None, measured_ms: Sequence[float], target_share: float) -> Prediction | None:
    """None where the profile does not know a step, or no start measured all of them."""
    if step_ms is None or not measured_ms:
        return None
    mean_ms = statistics.fmean(measured_ms)
    band = 2 * statistics.stdev(measured_ms) / mean_ms if len(measured_ms) > 1 else None
    return Prediction(step_ms, mean_ms, step_ms / mean_ms - 1, band, max(target_share, band or 0.0))


def by_rule(
    asked: Asked, steps: Sequence[ReplayedStep], profile: CostProfile, engine: Engine, options: Any
) -> tuple[dict[str, float], float | None]:
    """(exact, padded and fallback share by the dispatch rule, mean step ms by the profile) of the replayed steps.

    Both are empty or None for a list that the rule refuses; the mean is None where the profile does not know a step.
    """
    effective = engine.effective(asked or engine.default_lists(options), options)
    if effective.refused is not None or not steps:
        return {}, None
    cost = profile.family(engine.decode_family)
    rows = np.array([step.rows for step in steps], dtype=np.int64)
    size = rows * engine.step_tokens_per_request(options)
    bucket = engine.dispatch(effective, options).dispatch(engine.decode_family, size).bucket
    weight = np.array([step.weight for step in steps])
    weight = weight / weight.sum()
    kv_tokens = rows * np.array([step.context_tokens for step in steps])
    g_ms = np.where(bucket > 0, cost.bucket_ms_at(np.maximum(bucket, 1)), cost.fallback_ms_at(size))
    step_ms = g_ms + cost.attention_ms_per_mtoken * 1e-6 * kv_tokens + cost.row_ms * rows
    rates = {
        "exact": float(weight[bucket == size].sum()),
        "padded": float(weight[(bucket > 0) & (bucket != size)].sum()),
        "fallback": float(weight[bucket == 0].sum()),
    }
    mean_ms = float(weight @ step_ms)
    return rates, mean_ms if np.isfinite(mean_ms) else None


def worst_regret(asked: Asked, profile: CostProfile, engine: Engine, options: Any) -> tuple[float | None, int | None]:
    """(regret, at which size) over every decode size that the scheduler can reach and the profile covers."""
    effective = engine.effective(asked or engine.default_lists(options), options)
    if effective.refused is not None:
        return None, None
    allowed, family = engine.allowed(options), engine.decode_family
    reachable = min(allowed.reachable, int(profile.family(family).sizes[-1]))
    return list_regret(profile, engine.dispatch(effective, options), family, reachable, allowed)
