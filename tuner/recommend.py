"""The one use case: a trace, a profile, an engine and a budget -> lists with evidence and a verdict.

CLI, runner and API call `recommend` and nothing around it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from optuna.storages import BaseStorage

from tuner import closed_loop, verdict
from tuner.case import Case
from tuner.choice import Choice, choose, rehearse
from tuner.closed_loop import ClosedLoop
from tuner.confidence import LEVEL
from tuner.cost_profile import CostProfile
from tuner.front import Front
from tuner.recommendation import Recommendation, Trial, TuneRequest
from tuner.study import OnTrial, run_study
from tuner.traffic import Observed, limits_of
from tuner.verdict import Thresholds
from workloads.errors import BadUsage
from workloads.traces.records import RequestTrace

LEFT_OUT = (
    "tensor parallelism: the profile is of one GPU unless it says otherwise",
    "quantisation: step times are of the profile's own number format",
    "prefill and mixed-step graphs: their lists stay the engine's",
    "KV cache that fewer graphs may free: the engine's own rule decides, and it is not simulated here",
)


def recommend(
    request: TuneRequest,
    *,
    storage: BaseStorage | None = None,
    study_name: str | None = None,
    on_trial: OnTrial | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Recommendation:
    """Choose the capture list and say what it rests on. Equal requests give equal recommendations.

    Args:
        storage: Optuna's; a study found there under the name is resumed. None keeps the study in memory.
        study_name: None derives one from the request, so that only an equal request resumes it.
        on_trial: called after every trial, in order.
        should_stop: asked before every trial; the answer then rests on the trials made so far.

    Raises:
        BadUsage: the engine captures no decode graph with these options.
        BadInput, NotFound: profile and traffic do not fit; see `tuner.traffic.observe`.
        Infeasible: no list meets the budget; says what would.
    """
    case = Case.of(request)
    default = case.default_lists()
    if not case.sizes_of(default):
        raise BadUsage("these options switch CUDA graphs off, so there is no list to tune", field="set")
    observed = case.observe(request.traffic, default)
    front = case.front(observed)
    trials = run_study(
        case,
        request.traffic,
        observed,
        trials=request.trials,
        seed=request.seed,
        storage=storage,
        study_name=study_name or f"captune-{_fingerprint(request)}",
        on_trial=on_trial,
        should_stop=should_stop,
    )
    default_card = case.score(default, observed)
    chosen = choose(case, request.traffic, observed, front, default_card)
    point = chosen.point
    lists = case.lists_of(point.sizes)
    card = case.score(lists, observed)
    holdout, held_out_steps = rehearse(case, request.traffic, observed, request.holdout_share, point.list_length)
    loop = None
    if isinstance(request.traffic, RequestTrace):
        loop = closed_loop.check(case, request.traffic, lists, observed)
    thresholds = Thresholds()
    judged = verdict.Judged(
        tuned=card,
        default=default_card,
        holdout=holdout,
        held_out_steps=held_out_steps,
        default_report=observed.report,
        closed_loop_report=None if loop is None else loop.first.report,
        noise_share=verdict.noise_share(request.profile.family(observed.decode_family), observed.decode, thresholds),
        objective=request.objective,
    )
    decision, reasons = verdict.decide(judged, thresholds)
    return Recommendation(
        lists=lists,
        scorecard=card,
        default_lists=default,
        default_scorecard=default_card,
        verdict=decision,
        reasons=reasons,
        holdout=holdout,
        evidence=_evidence(request, case, observed, front, chosen, trials, loop, judged, thresholds),
        front=front.points,
        trials=trials,
        histogram={observed.decode_family: observed.decode.counts()},
        serving=observed.report,
    )


def _fingerprint(request: TuneRequest) -> str:
    """Everything the study depends on, as 16 hex digits."""
    parts = {
        "trace": request.traffic.digest(),
        "engine": request.engine.spec,
        "options": repr(request.options),
        "profile": _profile_digest(request.profile),
        "serving": asdict(request.serving),
        "budget": asdict(request.budget),
        "objective": request.objective,
        "seed": request.seed,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _profile_digest(profile: CostProfile) -> str:
    digest = hashlib.sha256(profile.name.encode())
    for name, cost in sorted(profile.families.items()):
        digest.update(name.encode())
        for column in (cost.sizes, cost.step_ms, cost.fallback_ms, cost.capture_s, cost.memory_mib):
            digest.update(column.tobytes())
    return digest.hexdigest()


def _evidence(
    request: TuneRequest,
    case: Case,
    observed: Observed,
    front: Front,
    chosen: Choice,
    trials: tuple[Trial, ...],
    loop: ClosedLoop | None,
    judged: verdict.Judged,
    thresholds: Thresholds,
) -> dict[str, Any]:
    """What the recommendation rests on, as plain values."""
    profile, serving = request.profile, request.serving
    limits = limits_of(request.engine, request.options, serving)
    return {
        "trace": {
            "name": request.trace_name,
            "digest": request.traffic.digest(),
            "kind": "requests" if isinstance(request.traffic, RequestTrace) else "steps",
            "rows": len(request.traffic),
            "decode_steps": observed.decode.total_steps,
            "held_out_steps": judged.held_out_steps,
            "origin": observed.decode.origin,
        },
        "engine": {"spec": request.engine.spec, "options": dict(request.raw_options), "notes": list(case.engine.notes)},
        "serving": {
            "policy": serving.policy or request.engine.policy,
            "load": serving.load,
            "engines": serving.engines,
            "max_running": limits.max_running_requests,
            "kv_tokens": limits.kv_tokens,
            "reachable": observed.reachable,
        },
        "profile": _profile_evidence(profile),
        "solver": {
            "objective": request.objective,
            "floor_step_ms": front.floor_step_ms,
            "optimal": front.optimal,
            "gap": front.gap,
            "solve_ms": front.solve_ms,
            "regret": request.budget.regret if request.budget.regret < float("inf") else None,
            "best_study_ms": _best_ms(trials),
        },
        "study": {
            "seed": request.seed,
            "trials": len(trials),
            "infeasible": sum(trial.state == "infeasible" for trial in trials),
            "failed": sum(trial.state == "failed" for trial in trials),
        },
        "choice": {
            "rolling_holdouts": list(chosen.rolling),
            "rolling_holdouts_guarded": list(chosen.guarded),
            "guard": None if chosen.guard is None else asdict(chosen.guard),
        },
        "confidence": _confidence_evidence(case, observed),
        "noise_share": judged.noise_share,
        "thresholds": asdict(thresholds),
        "closed_loop": _loop_evidence(request, case, loop, observed),
        "notes": [*observed.notes, *case.notes, *chosen.notes],
        "left_out": list(LEFT_OUT),
    }


def _best_ms(trials: tuple[Trial, ...]) -> float | None:
    values = [next(iter(trial.values.values())) for trial in trials if trial.state == "complete"]
    return min(values, default=None)


def _profile_evidence(profile: CostProfile) -> dict[str, Any]:
    device = dict(profile.device or {})
    where = device.get("name", "an unnamed device")
    when = f" on {profile.recorded_at}" if profile.recorded_at else ""
    return {
        "name": profile.name,
        "device": device,
        "model": dict(profile.model or {}),
        "software": dict(profile.software or {}),
        "recorded_at": profile.recorded_at,
        "starts": profile.starts,
        "basis": f"recorded on {where}{when}, not measured here",
    }


def _confidence_evidence(case: Case, observed: Observed) -> dict[str, Any]:
    confidence, cost = case.confidence, case.profile.family(observed.decode_family)
    return {
        "level": LEVEL,
        "fewest_starts": int(cost.starts.min()),
        "spread_share": confidence.spread_share,
        "spread_stated": confidence.stated,
        "sizes_with_own_interval": cost.sizes[confidence.own].tolist(),
        "sizes_not_counted_as_faster": cost.sizes[confidence.lifted].tolist(),
    }


def _loop_evidence(
    request: TuneRequest, case: Case, loop: ClosedLoop | None, before: Observed
) -> dict[str, Any] | None:
    if loop is None or not isinstance(request.traffic, RequestTrace):
        return None
    after, default = loop.first.report, before.report
    lists = {"default": case.default_lists(), "tuned": case.lists_of(loop.sizes[0])}
    return {
        "settled": [asdict(end) for end in closed_loop.settle(case, request.traffic, lists["tuned"])],
        "branches": {name: asdict(closed_loop.branches_of(case, request.traffic, of)) for name, of in lists.items()},
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
