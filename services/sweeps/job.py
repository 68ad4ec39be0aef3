"""One sweep from claim to recommendation: what the child process does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from optuna.exceptions import StorageInternalError

from db.records import Claim, StoredSweep
from db.store import Store
from services import telemetry
from services.catalog import find_profile
from services.contract.budget import BudgetModel
from services.contract.recommendation import RecommendationModel
from services.contract.serving import ServingOptionsModel
from services.contract.sweep import MEASURE
from services.contract.trial import TrialModel
from services.contract.worker_wish import WorkerWish
from services.logs import logged
from services.sweeps.head import GiveUp
from services.sweeps.measuring import measure_for_sweep
from tuner.cost_profile import CostProfile
from tuner.engines.registry import engine as find_engine
from tuner.recommend import recommend
from tuner.recommendation import Objective, Trial, TuneRequest
from workloads.errors import NotFound, Unavailable

log = logging.getLogger("captune.sweep")


class TrialClock:
    """A span a trial, from the end of the one before: trials are told when they are over."""

    def __init__(self, sweep_id: str) -> None:
        self._sweep_id = sweep_id
        self._at_ns = time.time_ns()

    def trial(self, trial: Trial) -> None:
        about: dict[str, str | int | None] = {
            "captune.sweep": self._sweep_id,
            "captune.trial": trial.number,
            "captune.state": trial.state,
        }
        traced = telemetry.begin("trial", about, self._at_ns)
        if traced is not None:
            traced.end()
        self._at_ns = time.time_ns()


def run_sweep(
    store: Store,
    claim: Claim,
    should_stop: Callable[[], bool],
    give_up: GiveUp | None = None,
) -> None:
    """Work on a claimed sweep until its recommendation is stored.

    Trials recorded before, by a process that died, stay as they are: a trial is a function of (request, seed,
    number), so meeting one again adds nothing.

    Args:
        should_stop: asked between trials; true ends the work without a recommendation.
        give_up: called from another thread when the head of the Ray cluster is lost; it ends the process. None
            leaves that to Ray.

    Raises:
        LeaseLost: the sweep is no longer ours.
        Unavailable: the database or Ray went away meanwhile.
        CaptuneError: why there is no recommendation.
    """
    sweep = store.sweeps.get(claim.sweep_id)
    if sweep.kind == "measure":
        _measure(store, claim, sweep, should_stop, give_up)
        return
    store.queue.progress(claim, "reading the trace")
    request = tune_request(store, sweep, lambda phase: store.queue.progress(claim, phase), should_stop, give_up)
    if should_stop():
        return
    store.queue.progress(claim, "tuning")

    reported: set[int] = set()
    clock = TrialClock(sweep.id)

    def on_trial(trial: Trial) -> None:
        if trial.number in reported:
            return
        reported.add(trial.number)
        document = TrialModel.from_domain(trial).model_dump(mode="json")
        with logged(trial=trial.number):
            new = store.queue.record_trial(claim, trial.number, trial.state, document)
            log.info("trial %s" if new else "trial %s; it was recorded before", trial.state)
        clock.trial(trial)

    storage = store.optuna_storage()
    try:
        recommendation = recommend(
            request,
            storage=storage,
            study_name=f"captune-sweep-{sweep.id}",
            on_trial=on_trial,
            should_stop=should_stop,
        )
    except StorageInternalError as error:
        raise Unavailable(f"the database does not answer in the middle of the study: {error.__cause__}") from error
    finally:
        storage.engine.dispose()
    if should_stop():
        return
    for trial in recommendation.trials:  # whatever the study did not report as it came
        on_trial(trial)
    model = RecommendationModel.from_domain(recommendation, engine=request.engine.spec, options=request.raw_options)
    store.queue.complete(claim, model.document(), model.verdict)


def _measure(
    store: Store,
    claim: Claim,
    job: StoredSweep,
    should_stop: Callable[[], bool],
    give_up: GiveUp | None,
) -> None:
    measure_for_sweep(
        store,
        job.id,
        job.model or "",
        lambda phase: store.queue.progress(claim, phase),
        should_stop,
        worker=WorkerWish.model_validate(job.worker),
        give_up=give_up,
        name=job.profile,
    )
    store.queue.finish(claim)


def tune_request(
    store: Store,
    sweep: StoredSweep,
    on_phase: Callable[[str], None],
    should_stop: Callable[[], bool],
    give_up: GiveUp | None = None,
) -> TuneRequest:
    """What a stored sweep asks for, with its trace and profile loaded (and measured, when it says so).

    Raises:
        NotFound: the trace or the profile is gone.
        BadUsage: an engine, option or limit that does not exist.
    """
    if sweep.trace_id is None:
        raise NotFound(f"the trace '{sweep.trace_name}' was deleted")
    chosen = find_engine(sweep.engine)
    return TuneRequest(
        traffic=store.traces.load(sweep.trace_id).traffic,
        trace_name=sweep.trace_name,
        engine=chosen,
        options=chosen.options(sweep.options),
        profile=_profile(store, sweep, on_phase, should_stop, give_up),
        raw_options=_texts(sweep.options),
        serving=ServingOptionsModel.model_validate(sweep.serving).to_domain(),
        budget=BudgetModel.model_validate(sweep.budget).to_domain(),
        objective=cast(Objective, sweep.objective),
        trials=sweep.trials,
        holdout_share=sweep.holdout_share,
        seed=sweep.seed,
    )


def _profile(
    store: Store,
    sweep: StoredSweep,
    on_phase: Callable[[str], None],
    should_stop: Callable[[], bool],
    give_up: GiveUp | None,
) -> CostProfile:
    if sweep.profile == MEASURE and sweep.model is not None:
        worker = WorkerWish.model_validate(sweep.worker)
        return measure_for_sweep(store, sweep.id, sweep.model, on_phase, should_stop, worker=worker, give_up=give_up)
    return find_profile(sweep.profile, store, files=False)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in options.items()}
