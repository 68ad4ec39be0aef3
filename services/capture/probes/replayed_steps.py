"""Which steps of a workload are replayed inside the engine, and whether the engine could keep up with it at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from services.capture.probes.records import ComparedWorkload, ReplayedStep
from services.capture.probes.workload import CONTEXT_STEP_TOKENS, EngineWorkload
from services.capture.replay_job import sample_window
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine
from tuner.traffic import observe


def compared_workload(
    workload: EngineWorkload,
    engine: Engine,
    options: Any,
    profile: CostProfile,
    *,
    limit: int,
    context_tokens: int,
    fitting: Callable[[int, int], int],
) -> ComparedWorkload:
    """Recorded (or simulated) decode steps of the test part, at most `limit` of them, each standing for its share.

    Args:
        context_tokens: of steps whose context is not known.
        fitting: (rows, context) -> the context, or as much of it as fits into the engine.

    Raises:
        BadInput: the traffic does not fit the engine.
    """
    seen = observe(workload.test_part, engine, options, profile, workload.serving)
    known = bool(np.isfinite(seen.steps.kv_tokens).any())
    window = sample_window(seen.steps, seen.decode_family, name=workload.plan.name, limit=limit)
    weights: dict[tuple[int, int], float] = {}
    for step in window.steps:
        wanted = step.kv_tokens // step.rows if known else context_tokens
        rounded = max(1, round(wanted / CONTEXT_STEP_TOKENS)) * CONTEXT_STEP_TOKENS
        key = step.rows, fitting(step.rows, rounded)
        weights[key] = weights.get(key, 0.0) + step.weight
    return ComparedWorkload(
        workload.plan.name,
        tuple(ReplayedStep(rows, context, weight) for (rows, context), weight in sorted(weights.items())),
        None if seen.report is None else round(seen.report.load_share, 4),
        seen.report is not None and seen.report.overloaded,
    )
