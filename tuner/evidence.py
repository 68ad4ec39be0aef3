"""What a recommendation rests on, as plain values for JSON: found by those who check it and drawn by the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from tuner import closed_loop
from tuner.case import Case
from tuner.choice import Choice
from tuner.closed_loop import ClosedLoop
from tuner.confidence import LEVEL
from tuner.cost_profile import CostProfile
from tuner.engines.base import Lists
from tuner.front import Front
from tuner.recommendation import Trial, TuneRequest
from tuner.service import service_of
from tuner.serving_features import features_of
from tuner.study import exact_bound_ms
from tuner.traffic import Observed, limits_of
from tuner.verdict import Judged, Thresholds
from workloads.traces.records import RequestTrace

LEFT_OUT = (
    "tensor parallelism: the profile is of one GPU unless it says otherwise",
    "quantisation: step times are of the profile's own number format",
    "prefill and mixed-step graphs: their lists stay the engine's",
)
CURVE_POINTS = 160


@dataclass(frozen=True, slots=True)
class Grounds:
    """All that a tuning job found, before it is put into words."""

    request: TuneRequest
    case: Case
    observed: Observed
    front: Front
    chosen: Choice
    trials: Sequence[Trial]
    loop: ClosedLoop | None
    judged: Judged
    thresholds: Thresholds


def collect(found: Grounds) -> dict[str, Any]:
    """What the recommendation rests on."""
    request, case, observed, chosen = found.request, found.case, found.observed, found.chosen
    return {
        "trace": _trace(found),
        "engine": {"spec": request.engine.spec, "options": dict(request.raw_options), "notes": list(case.engine.notes)},
        "serving": _serving(found),
        "profile": _profile(request.profile),
        "software": {name: version(name) for name in ("numpy", "numba", "optuna")},
        "solver": {
            "objective": request.objective,
            "floor_step_ms": found.front.floor_step_ms,
            "optimal": found.front.optimal,
            "gap": found.front.gap,
            "solve_ms": found.front.solve_ms,
            "regret": request.budget.regret if request.budget.regret < float("inf") else None,
            "best_study_ms": _best_ms(found.trials),
        },
        "study": _study(found),
        "choice": {
            "rolling_holdouts": list(chosen.rolling),
            "rolling_holdouts_guarded": list(chosen.guarded),
            "guard": None if chosen.guard is None else asdict(chosen.guard),
        },
        "compared": _compared(found),
        "curve": _curve(case),
        "confidence": _confidence(case),
        "noise_share": found.judged.noise_share,
        "thresholds": asdict(found.thresholds),
        "closed_loop": _loop(found),
        "kv": {name: asdict(case.kv(lists)) for name, lists in _lists(found).items()},
        "service": _service(found),
        "notes": [*observed.notes, *case.notes, *chosen.notes],
        "left_out": list(LEFT_OUT),
    }


def _lists(found: Grounds) -> dict[str, Lists]:
    return {"default": found.case.default_lists(), "tuned": found.case.lists_of(found.chosen.point.sizes)}


def _trace(found: Grounds) -> dict[str, Any]:
    traffic = found.request.traffic
    return {
        "name": found.request.trace_name,
        "digest": traffic.digest(),
        "kind": "requests" if isinstance(traffic, RequestTrace) else "steps",
        "rows": len(traffic),
        "decode_steps": found.observed.decode.total_steps,
        "held_out_steps": found.judged.held_out_steps,
        "origin": found.observed.decode.origin,
    }


def _serving(found: Grounds) -> dict[str, Any]:
    request, serving = found.request, found.request.serving
    limits = limits_of(request.engine, request.options, serving, request.profile, found.case.default_lists())
    features = features_of(request.engine, request.options, serving)
    speculation = features.speculation
    return {
        "policy": serving.policy or request.engine.policy,
        "load": serving.load,
        "engines": serving.engines,
        "max_running": limits.max_running_requests,
        "kv_tokens": limits.kv_tokens,
        "reachable": found.observed.reachable,
        "slo": asdict(serving.slo),
        "preempt": features.preempt,
        "prefix_cache": features.prefix_cache,
        "speculation": None if speculation is None else asdict(speculation),
        "dp_attention": features.attention_ranks,
    }


def _best_ms(trials: Sequence[Trial]) -> float | None:
    best = _best(trials)
    return None if best is None or best["figure"] not in ("mean_step_ms", "tpot_ms") else best["value"]


def _best(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """The trial with the least first objective among those that meet every constraint."""
    complete = [trial for trial in trials if trial.state == "complete"]
    if not complete:
        return None
    trial = min(complete, key=lambda trial: next(iter(trial.values.values())))
    figure, value = next(iter(trial.values.items()))
    return {
        "trial": trial.number,
        "source": trial.source,
        "figure": figure,
        "value": value,
        "lists": {name: list(sizes) for name, sizes in trial.lists.items()},
        "params": dict(trial.params),
    }


def _study(found: Grounds) -> dict[str, Any]:
    request = found.request
    return {
        "seed": request.seed,
        "sampler": request.sampler,
        "search": {name: list(values) for name, values in request.search.items()},
        "trials": len(found.trials),
        "infeasible": sum(trial.state == "infeasible" for trial in found.trials),
        "failed": sum(trial.state == "failed" for trial in found.trials),
        "best": _best(found.trials),
        "exact_bound": exact_bound_ms(found.case, request.traffic, found.observed),
    }


def _profile(profile: CostProfile) -> dict[str, Any]:
    device = dict(profile.device or {})
    where = device.get("name", "an unnamed device")
    when = f" on {profile.recorded_at}" if profile.recorded_at else ""
    return {
        "name": profile.name,
        "digest": profile.digest(),
        "device": device,
        "model": dict(profile.model or {}),
        "software": dict(profile.software or {}),
        "recorded_at": profile.recorded_at,
        "starts": profile.starts,
        "basis": f"recorded on {where}{when}, not measured here",
    }


def _compared(found: Grounds) -> list[dict[str, Any]]:
    """Every list that was looked at: who proposed it, and what it does to the traffic that it makes itself."""
    return [
        {
            "trial": trial.number,
            "source": trial.source,
            "state": trial.state,
            "reason": trial.reason,
            "list_length": None if trial.scorecard is None else trial.scorecard.list_length,
            "mean_step_ms": None if trial.scorecard is None else trial.scorecard.mean_step_ms,
            "tpot_ms": None if trial.scorecard is None else trial.scorecard.tpot_ms,
            "worst_regret": None if trial.scorecard is None else trial.scorecard.worst_regret,
        }
        for trial in found.trials
    ]


def _curve(case: Case) -> dict[str, Any]:
    """The measured staircase and the curve that lists were chosen on, as far as the engine captures."""
    cost, read = case.profile.family(case.engine.decode_family), case.confidence.read
    within = cost.sizes <= case.allowed.largest
    return {
        "unit": cost.unit,
        "sizes": cost.sizes[within].tolist(),
        "bucket_ms": np.round(cost.bucket_ms()[within], 5).tolist(),
        "chosen_on_ms": np.round(read.bucket_ms()[within], 5).tolist(),
    }


def _confidence(case: Case) -> dict[str, Any]:
    confidence, cost = case.confidence, case.profile.family(case.engine.decode_family)
    return {
        "level": LEVEL,
        "fewest_starts": int(cost.starts.min()),
        "spread_share": confidence.spread_share,
        "spread_stated": confidence.stated,
        "sizes_with_own_interval": cost.sizes[confidence.own].tolist(),
        "sizes_not_counted_as_faster": cost.sizes[confidence.lifted].tolist(),
    }


def _loop(found: Grounds) -> dict[str, Any] | None:
    loop, trace, case = found.loop, found.request.traffic, found.case
    if loop is None or not isinstance(trace, RequestTrace):
        return None
    after, default = loop.first.report, found.observed.report
    lists = _lists(found)
    rises = {name: closed_loop.rise_of(case, trace, of) for name, of in lists.items()}
    return {
        "settled": [asdict(end) for end in closed_loop.settle(case, trace, lists["tuned"])],
        "branches": {name: asdict(rise.branches()) for name, rise in rises.items()},
        "branch_curves": {name: branch_curve(rise) for name, rise in rises.items()},
        "mean_sizes": list(loop.mean_sizes),
        "shift": loop.shift,
        "rounds": len(loop.sizes),
        "lists": [list(sizes) for sizes in loop.sizes],
        "converged": loop.converged,
        "tpot_mean_ms": None if after is None else after.tpot_mean_ms,
        "default_tpot_mean_ms": None if default is None else default.tpot_mean_ms,
        "throughput_tokens_per_s": None if after is None else after.throughput_tokens_per_s,
        "default_throughput_tokens_per_s": None if default is None else default.throughput_tokens_per_s,
        "overloaded": None if after is None else after.overloaded,
    }


def branch_curve(rise: closed_loop.Rise) -> dict[str, list[float]]:
    """The load that every batch keeps up with, thinned out to what a drawing shows; both ends of every jump stay."""
    load = rise.sustained_load()
    falls = np.flatnonzero(load[1:] < load[:-1])
    grid = np.linspace(0, len(load) - 1, min(len(load), CURVE_POINTS)).astype(np.int64)
    shown = np.unique(np.concatenate((grid, falls, falls + 1)))
    return {"batch": (shown + 1).tolist(), "load": [float(f"{value:.6g}") for value in load[shown]]}


def _service(found: Grounds) -> dict[str, Any] | None:
    trace, before = found.request.traffic, found.observed.report
    after = None if found.loop is None else found.loop.first.report
    if not isinstance(trace, RequestTrace) or before is None or after is None:
        return None
    reports = {"default": before, "tuned": after}
    return {name: asdict(service_of(found.case, trace, lists, reports[name])) for name, lists in _lists(found).items()}
