"""What the profile alone says of a list: where its steps run, how long they take, and its worst regret."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from services.capture.probes.records import ReplayedStep
from services.capture.probes.step_time import StepCase
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine
from tuner.scorecard import list_regret

Asked = Mapping[str, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """A replayed step as the dispatch rule and the profile see it.

    Attributes:
        exact, covered: it runs in a graph of its own size; in any graph.
        step_ms: nan where the profile does not know the step.
    """

    step: ReplayedStep
    exact: bool
    covered: bool
    step_ms: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """A profile held to its word on one list and workload.

    The profile's starts capture other lists, and time full steps at contexts of the protocol. So nothing here was used
    for the profile.

    Attributes:
        step_ms: mean of the replayed steps by the profile.
        error_share: step_ms / measured - 1.
        band_share: start-to-start band of the measured mean, 2 x standard deviation / mean over the starts of this
            list; None with fewer than two.
        tolerated_share: the target of the plan, or the band where that is wider.
        mostly: the step that adds most to the error, in words.
    """

    step_ms: float
    measured_ms: float
    error_share: float
    band_share: float | None
    tolerated_share: float
    mostly: str

    @property
    def held(self) -> bool:
        return abs(self.error_share) <= self.tolerated_share


def predicted_steps(
    asked: Asked, steps: Sequence[ReplayedStep], profile: CostProfile, engine: Engine, options: Any
) -> tuple[PredictedStep, ...]:
    """Every replayed step, at its own context; empty for a list that the engine's rule refuses."""
    effective = engine.effective(asked or engine.default_lists(options), options)
    if effective.refused is not None or not steps:
        return ()
    cost = profile.family(engine.decode_family)
    rows = np.array([step.rows for step in steps], dtype=np.int64)
    size = rows * engine.step_tokens_per_request(options)
    bucket = engine.dispatch(effective, options).dispatch(engine.decode_family, size).bucket
    kv_tokens = rows * np.array([step.context_tokens for step in steps])
    step_ms = cost.in_bucket_ms(bucket, rows, kv_tokens, size)
    found = zip(steps, (bucket == size).tolist(), (bucket > 0).tolist(), step_ms.tolist(), strict=True)
    return tuple(PredictedStep(*one) for one in found)


def rates_of(steps: Sequence[PredictedStep]) -> dict[str, float]:
    """Exact, padded and fallback share by the dispatch rule; empty without steps."""
    if not steps:
        return {}
    return {
        "exact": _share(steps, [of.exact for of in steps]),
        "padded": _share(steps, [of.covered and not of.exact for of in steps]),
        "fallback": _share(steps, [not of.covered for of in steps]),
    }


def mean_ms_of(steps: Sequence[PredictedStep]) -> float | None:
    """Mean step by the profile; None where it does not know one."""
    if not steps:
        return None
    mean_ms = _share(steps, [of.step_ms for of in steps])
    return mean_ms if np.isfinite(mean_ms) else None


def prediction_of(
    steps: Sequence[PredictedStep],
    mean_steps_ms: Sequence[float],
    case_ms: Mapping[StepCase, float],
    target_share: float,
) -> Prediction | None:
    """None where the profile does not know a step, or no start measured all of them.

    Args:
        mean_steps_ms: measured mean of the replayed steps, one value a start.
        case_ms: measured step by case, the mean over starts.
    """
    step_ms = mean_ms_of(steps)
    if step_ms is None or not mean_steps_ms:
        return None
    mean_ms = statistics.fmean(mean_steps_ms)
    band = 2 * statistics.stdev(mean_steps_ms) / mean_ms if len(mean_steps_ms) > 1 else None
    worst = max(steps, key=lambda of: of.step.weight * abs(of.step_ms - case_ms[_case(of.step)]))
    mostly = (
        f"{worst.step.rows} rows at {worst.step.context_tokens} tokens, {worst.step_ms:.3f} ms predicted and "
        f"{case_ms[_case(worst.step)]:.3f} measured"
    )
    return Prediction(step_ms, mean_ms, step_ms / mean_ms - 1, band, max(target_share, band or 0.0), mostly)


def worst_regret(asked: Asked, profile: CostProfile, engine: Engine, options: Any) -> tuple[float | None, int | None]:
    """(regret, at which size) over every decode size that the scheduler can reach and the profile covers."""
    effective = engine.effective(asked or engine.default_lists(options), options)
    if effective.refused is not None:
        return None, None
    allowed, family = engine.allowed(options), engine.decode_family
    reachable = min(allowed.reachable, int(profile.family(family).sizes[-1]))
    return list_regret(profile, engine.dispatch(effective, options), family, reachable, allowed)


def _share(steps: Sequence[PredictedStep], values: Sequence[float]) -> float:
    """Mean of a value over the steps that the replayed ones stand for."""
    return float(np.average(np.array(values, dtype=np.float64), weights=[of.step.weight for of in steps]))


def _case(step: ReplayedStep) -> StepCase:
    return StepCase(step.rows, step.context_tokens)
