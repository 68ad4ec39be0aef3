"""The one use case: a trace, a profile, an engine and a budget -> lists with evidence and a verdict.

CLI, runner and API call `recommend` and nothing around it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict

from optuna.storages import BaseStorage

from tuner import closed_loop, verdict
from tuner.case import Case
from tuner.choice import choose, rehearse
from tuner.evidence import Grounds, collect
from tuner.kv_facts import kv_facts
from tuner.recommendation import Recommendation, TuneRequest
from tuner.service import KvChange
from tuner.study import OnTrial, run_study
from tuner.study_space import Searched
from tuner.verdict import Thresholds
from workloads.errors import BadUsage
from workloads.traces.records import RequestTrace


def recommend(
    request: TuneRequest,
    *,
    storage: BaseStorage | None = None,
    study_name: str | None = None,
    alone: bool = True,
    on_trial: OnTrial | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Recommendation:
    """Choose the capture list and say what it rests on. Equal requests give equal recommendations.

    Args:
        storage: Optuna's; a study found there under the name is resumed. None keeps the study in memory.
        study_name: None derives one from the request, so that only an equal request resumes it.
        alone: see `tuner.study.run_study`.
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
    case = case.at_context_of(observed)
    front = case.front(observed)
    trials = run_study(
        case,
        request.traffic,
        observed,
        trials=request.trials,
        seed=request.seed,
        sampler=request.sampler,
        searched=Searched(request.raw_options, request.search),
        storage=storage,
        study_name=study_name or f"captune-{_fingerprint(request)}",
        alone=alone,
        on_trial=on_trial,
        should_stop=should_stop,
    )
    default_card = case.score(default, observed)
    chosen = choose(case, request.traffic, observed, front, default_card)
    point = chosen.point
    lists = case.lists_of(point.sizes)
    card = case.score(lists, observed)
    holdout, held_out_steps = rehearse(case, request.traffic, observed, request.holdout_share, chosen)
    loop = None
    if isinstance(request.traffic, RequestTrace):
        loop = closed_loop.check(case, request.traffic, lists, observed)
    kv = KvChange.of(case, card, default_card)
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
        moved=loop is not None and (loop.moved or kv.moved),
    )
    decision, reasons = verdict.decide(judged, thresholds)
    return Recommendation(
        lists=lists,
        scorecard=card,
        default_lists=default,
        default_scorecard=default_card,
        verdict=decision,
        reasons=(*reasons, _kv_reason(request, kv)),
        holdout=holdout,
        evidence=collect(Grounds(request, case, observed, front, chosen, trials, loop, judged, thresholds)),
        front=front.points,
        trials=trials,
        histogram={observed.decode_family: observed.decode.counts()},
        serving=observed.report,
    )


def _kv_reason(request: TuneRequest, change: KvChange) -> str:
    """The sentence, and what to set for a model like the profile's where the engine's rule lacks facts."""
    known = {} if change.tuned.tokens else kv_facts(request.profile, request.engine, request.raw_options)
    hint = " ".join(f"--set {name}={value}" for name, value in known.items())
    return f"{change.sentence} For the profile's model: {hint}." if hint else change.sentence


def _fingerprint(request: TuneRequest) -> str:
    """Everything the study depends on, as 16 hex digits."""
    parts = {
        "trace": request.traffic.digest(),
        "engine": request.engine.spec,
        "options": repr(request.options),
        "profile": request.profile.digest(),
        "serving": asdict(request.serving),
        "budget": asdict(request.budget),
        "objective": request.objective,
        "seed": request.seed,
        "sampler": request.sampler,
        "search": {name: list(values) for name, values in request.search.items()},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
