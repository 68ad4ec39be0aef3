"""The Optuna study: trials around the exact solver, evaluated where the recurrence cannot see (the closed loop).

Trial 0 is the engine's default, ladders by rule of thumb and the solver's lists at some lengths follow, the rest is
sampled (`tuner.study_space`). The sampler of trial n is seeded by (seed, n) and asked for one trial at a time, so that
a study that was killed and resumed on the same storage gives the trials of an undisturbed one.

Every trial takes a slot, its number here, and writes it into the storage before it is evaluated, so that several
processes can work on one study.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import optuna
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.case import Case
from tuner.exact import solve
from tuner.front import length_bound
from tuner.recommendation import SamplerName, Trial
from tuner.samplers import Fixed, sampler_of
from tuner.step_cost import terms_ms
from tuner.study_space import Searched, Space
from tuner.study_trial import Evaluator
from tuner.traffic import Observed
from workloads.errors import Infeasible
from workloads.traces.records import StepTrace, Traffic

STALE_S = 600.0
"""A trial that is open for so long was left by a process that died; one takes seconds."""
MOST_WAIT_S = 0.05
"""Before a slot is tried again that another process wanted too."""

OnTrial = Callable[[Trial], None]


def run_study(
    case: Case,
    traffic: Traffic,
    before: Observed,
    *,
    trials: int,
    seed: int = 0,
    sampler: SamplerName = "tpe",
    searched: Searched | None = None,
    storage: BaseStorage | None = None,
    study_name: str = "captune",
    alone: bool = True,
    on_trial: OnTrial | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[Trial, ...]:
    """Run the study up to `trials` trials, those already in the storage included.

    Args:
        before: the traffic under the engine's default lists, which the solver decodes against.
        searched: engine options that vary beside the list.
        storage: where Optuna keeps the study; None keeps it in memory.
        alone: no other process works on this study now, so a trial that is still open was left by a killed one and is
            made again. False leaves open trials to whoever opened them, for `STALE_S`.
        on_trial: called for every trial, in order; also for those found in the storage.
        should_stop: asked before every new trial.

    Returns:
        All finished trials, 0 being the engine's default. Infeasible ones carry their reason.

    Raises:
        BadUsage, MissingExtra: the sampler is unknown, or lacks what it needs.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler_of(sampler, seed)
    runner = _Runner(Space(case, traffic, before, searched), traffic, seed, sampler)
    study = _study_of(storage, study_name, len(runner.evaluator.objectives))
    _close_left_open(study, 0.0 if alone else STALE_S)
    done: dict[int, Trial] = {}

    def report(trial: Trial) -> None:
        done[trial.number] = trial
        if on_trial:
            on_trial(trial)

    while slots := [slot for slot in range(trials) if slot not in done and not _open(study, slot)]:
        for slot in slots:
            if should_stop and should_stop():
                return tuple(done[slot] for slot in sorted(done))
            held = _holder(study, slot)
            if held is None:
                made = runner.run(study, slot)
                if made is not None:
                    report(made)
            elif held.state.is_finished():
                report(runner.recall(held, slot))
    return tuple(done[slot] for slot in sorted(done))


def exact_bound_ms(case: Case, traffic: Traffic, before: Observed) -> float | None:
    """The least mean step (or token) time of any list within the constraints, where the recurrence is exact.

    None where it is not: requests answer to the list, and so does their histogram. As in every trial, the time is that
    of decode steps, as the profile read it; other families on the list only add to what it takes of the budgets.
    """
    if not isinstance(traffic, StepTrace):
        return None
    problem = replace(case.problem(before, case.objective, cautious=False), shared=())
    try:
        best = solve(problem, length_bound(case.budget, case.allowed)).front[-1]
    except Infeasible:
        return None
    terms = terms_ms(case.profile.family(before.decode_family), before.decode)
    return best.mean_ms + float(problem.weights @ terms / problem.weights.sum())


def _study_of(storage: BaseStorage | None, name: str, objectives: int) -> Study:
    directions = [StudyDirection.MINIMIZE] * objectives
    study = optuna.create_study(storage=storage, study_name=name, directions=directions, load_if_exists=True)
    if len(study.directions) == objectives:
        return study
    # A study of an earlier version with other objectives: its trials cannot be told apart from ours, so begin anew.
    fresh = f"{name}-{objectives}"
    return optuna.create_study(storage=storage, study_name=fresh, directions=directions, load_if_exists=True)


def _close_left_open(study: Study, older_than_s: float) -> None:
    now = datetime.now()
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        begun = trial.datetime_start
        if begun is None or (now - begun).total_seconds() >= older_than_s:
            study.tell(trial.number, state=TrialState.FAIL)


def _claims(study: Study, slot: int) -> list[FrozenTrial]:
    """Trials that hold a slot, or want to. One that was closed without having failed was left by a killed process: it
    holds none, also where it had its result but had not told it, as the sampler has not learnt from it."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.user_attrs.get("slot") == slot
        and not (trial.state == TrialState.FAIL and trial.user_attrs.get("state") != "failed")
    ]


def _holder(study: Study, slot: int) -> FrozenTrial | None:
    """The trial of a slot: the finished one, else one that is open."""
    claims = _claims(study, slot)
    return next((trial for trial in claims if trial.state.is_finished()), claims[0] if claims else None)


def _open(study: Study, slot: int) -> bool:
    held = _holder(study, slot)
    return held is not None and not held.state.is_finished()


class _Runner:
    def __init__(self, space: Space, traffic: Traffic, seed: int, sampler: SamplerName) -> None:
        self.space, self.seed, self.sampler = space, seed, sampler
        self.evaluator = Evaluator(space, traffic)
        self.first = space.first_plans()

    def run(self, study: Study, slot: int) -> Trial | None:
        """Evaluate a slot and tell Optuna; None where another process holds it."""
        fixed = self.first[slot] if slot < len(self.first) else None
        seed = int(np.random.SeedSequence([self.seed, slot]).generate_state(1)[0])
        study.sampler = sampler_of(self.sampler, seed) if fixed is None else Fixed(fixed.params)
        asked = study.ask(self.space.distributions)
        asked.set_user_attr("slot", slot)
        # Every process writes before it reads, so of two that want a slot at least one sees the other, and gives way.
        if any(claim.number != asked.number for claim in _claims(study, slot)):
            study.tell(asked, state=TrialState.FAIL)
            time.sleep(random.uniform(0.0, MOST_WAIT_S))
            return None
        tried = self.evaluator.try_plan(fixed or self.space.decode(dict(asked.params)), slot)
        for key, value in _attributes(tried.trial).items():
            asked.set_user_attr(key, value)
        if tried.trial.state == "failed":
            study.tell(asked, state=TrialState.FAIL)
            return tried.trial
        for name, excess in tried.excess.items():
            asked.set_constraint(name, excess)
        study.tell(asked, list(tried.trial.values.values()))
        return tried.trial

    def recall(self, frozen: FrozenTrial, slot: int) -> Trial:
        """A trial from the storage, its list made and scored again (equal inputs give equal scores)."""
        fixed = self.first[slot] if slot < len(self.first) else None
        return self.evaluator.try_plan(fixed or self.space.decode(dict(frozen.params)), slot).trial


def _attributes(trial: Trial) -> dict[str, Any]:
    sizes = next(iter(trial.lists.values()))
    kept = {"source": trial.source, "state": trial.state, "reason": trial.reason}
    return kept | {"sizes": json.dumps([int(size) for size in sizes])}
