"""The Optuna study: trials around the exact solver, evaluated where the recurrence cannot see (the closed loop).

Every trial's parameters (length, weight per token, price per graph) are decoded by the exact solver, so each trial is
a good list. Trial 0 is the engine's default. The sampler of trial n is seeded by (seed, n) and asked for one trial at
a time, so that a study that was killed and resumed on the same storage gives the trials of an undisturbed one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.case import Case
from tuner.engines.base import Lists
from tuner.exact import solve
from tuner.front import length_bound, problem_of
from tuner.recommendation import Scorecard, Trial
from tuner.recommendation import TrialState as Outcome
from tuner.traffic import Observed
from workloads.errors import CaptuneError, Infeasible
from workloads.traces.records import RequestTrace, Traffic

KNEES = (4, 8, 16, 24)
"""Lengths tried first: measured curves have few levels, and the front is flat after them."""
LEAST_PRICE_MS, MOST_PRICE_MS = 1e-4, 0.1
"""Range of the price of one more graph, in mean step milliseconds."""

OnTrial = Callable[[Trial], None]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A list to evaluate and where it comes from; `broken` says why it was decoded without the constraints."""

    source: str
    params: dict[str, Any]
    lists: Lists
    broken: str | None = None


def run_study(
    case: Case,
    traffic: Traffic,
    before: Observed,
    *,
    trials: int,
    seed: int = 0,
    storage: BaseStorage | None = None,
    study_name: str = "captune",
    on_trial: OnTrial | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[Trial, ...]:
    """Run the study up to `trials` trials, those already in the storage included.

    Args:
        before: the traffic under the engine's default lists, which the solver decodes against.
        storage: where Optuna keeps the study; None keeps it in memory.
        on_trial: called for every trial in order, also for those found in the storage.
        should_stop: asked before every new trial.

    Returns:
        All trials, 0 being the engine's default. Infeasible ones carry their reason.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    runner = _Runner(case, traffic, before, seed)
    study = optuna.create_study(
        storage=storage, study_name=study_name, directions=["minimize", "minimize"], load_if_exists=True
    )
    done: list[Trial] = []
    for known in _finished(study):
        done.append(runner.recall(known, len(done)))
        if on_trial:
            on_trial(done[-1])
    while len(done) < trials and not (should_stop and should_stop()):
        done.append(runner.run(study, len(done)))
        if on_trial:
            on_trial(done[-1])
    return tuple(done)


def _finished(study: Study) -> Iterable[FrozenTrial]:
    """Trials that ended, in order. One that a killed run left open is closed and tried again under its number."""
    for trial in study.get_trials(deepcopy=False):
        if trial.state == TrialState.RUNNING:
            study.tell(trial.number, state=TrialState.FAIL)
        if trial.state == TrialState.COMPLETE or trial.user_attrs.get("state") == "failed":
            yield trial


class _Runner:
    def __init__(self, case: Case, traffic: Traffic, before: Observed, seed: int) -> None:
        self.case, self.traffic, self.before, self.seed = case, traffic, before, seed
        self.cards: dict[tuple[int, ...], Scorecard] = {}
        cost = case.profile.family(before.decode_family)
        self.problem = problem_of(
            before.decode,
            cost,
            budget=case.budget,
            objective="step",
            allowed=case.allowed,
            rule=case.rule,
            reachable=before.reachable,
            wide=case.wide(before.reachable),
            read=case.confidence.read,
        )
        self.longest = min(length_bound(case.budget, case.allowed), len(self.problem.candidates))
        capture = "capture_s" if bool(np.isfinite(cost.capture_s).all()) else "list_length"
        self.objectives = ["mean_step_ms" if case.objective == "step" else "tpot_ms", capture]
        self.space: dict[str, BaseDistribution] = {
            "list_length": IntDistribution(1, self.longest),
            "token_weight": FloatDistribution(0.0, 1.0),
            "price_ms": FloatDistribution(LEAST_PRICE_MS, MOST_PRICE_MS, log=True),
        }
        self.first = self._first_plans()

    def run(self, study: Study, number: int) -> Trial:
        """Evaluate trial `number` and tell Optuna: fixed ones in one write, sampled ones by ask and tell."""
        if number < len(self.first):
            plan = self.first[number]
            trial, constraints = self._evaluate(plan, number)
            study.add_trial(self._frozen(trial, plan, constraints))
            return trial
        state = np.random.SeedSequence([self.seed, number]).generate_state(1)
        study.sampler = optuna.samplers.TPESampler(seed=int(state[0]))
        asked = study.ask(self.space)
        plan = self._decode("study", dict(asked.params))
        trial, constraints = self._evaluate(plan, number)
        for key, value in _attributes(trial, plan).items():
            asked.set_user_attr(key, value)
        if trial.state == "failed":
            study.tell(asked, state=TrialState.FAIL)
            return trial
        for name, excess in constraints.items():
            asked.set_constraint(name, excess)
        study.tell(asked, list(trial.values.values()))
        return trial

    def recall(self, frozen: FrozenTrial, number: int) -> Trial:
        """A trial from the storage, its list scored again (equal inputs give equal scores)."""
        attributes = frozen.user_attrs
        sizes = tuple(json.loads(attributes["sizes"]))
        plan = _Plan(attributes["source"], dict(frozen.params), self.case.lists_of(sizes), attributes.get("broken"))
        return self._evaluate(plan, number)[0]

    def _first_plans(self) -> list[_Plan]:
        default = self.case.default_lists()
        plans = [_Plan("default", {}, default)]
        top = self.case.allowed.largest
        multiple = self.case.allowed.multiple_of
        doubling = {multiple << n for n in range(top.bit_length()) if multiple << n <= top} | {
            top // multiple * multiple
        }
        plans.append(_Plan("powers_of_two", {}, self.case.lists_of(tuple(sorted(doubling)))))
        half = len(self.case.sizes_of(default)) // 2
        for length in sorted({min(k, self.longest) for k in (*KNEES, half) if k}):
            params = {
                "list_length": length,
                "token_weight": float(self.case.objective == "token"),
                "price_ms": LEAST_PRICE_MS,
            }
            plans.append(self._decode("study", params))
        return plans

    def _decode(self, source: str, params: dict[str, Any]) -> _Plan:
        """The exact solver's list for these parameters; without the constraints where no such list keeps them."""
        histogram = self.before.decode
        weights = histogram.steps * histogram.sizes.astype(np.float64) ** params["token_weight"]
        price_ms = np.full(len(self.problem.candidates), params["price_ms"])
        problem = replace(self.problem, weights=weights, price_ms=price_ms)
        try:
            front = solve(problem, params["list_length"]).front
            return _Plan(source, params, self.case.lists_of(front[-1].sizes))
        except Infeasible as error:
            broken = error.message
        # A list that breaks the constraints still tells the sampler how far off this corner is.
        free = replace(problem, regret=np.inf, resources=(), required=problem.required[:0])
        try:
            sizes = solve(free, params["list_length"]).front[-1].sizes
        except Infeasible:
            sizes = ()
        return _Plan(source, params, self.case.lists_of(sizes), broken)

    def _evaluate(self, plan: _Plan, number: int) -> tuple[Trial, dict[str, float]]:
        base = Trial(number, plan.source, "failed", plan.params, plan.lists, {}, None)
        if plan.broken is not None and not self.case.sizes_of(plan.lists):
            return replace(base, reason=plan.broken), {}
        try:
            card = self._card(plan.lists)
        except CaptuneError as error:
            return replace(base, reason=str(error)), {}
        cost_ms = self.case.cost_ms(card)
        startup = card.capture_s if self.objectives[1] == "capture_s" else float(card.list_length)
        if not np.isfinite(cost_ms) or startup is None:
            unknown = "the profile does not know the time of every step, or what capturing every size takes"
            return replace(base, scorecard=card, reason=unknown), {}
        values = dict(zip(self.objectives, (cost_ms, startup), strict=True))
        constraints, reasons = self._constraints(card, plan)
        state: Outcome = "infeasible" if reasons else "complete"
        reason = "; ".join(reasons) or None
        return replace(base, state=state, values=values, scorecard=card, reason=reason), constraints

    def _card(self, lists: Lists) -> Scorecard:
        key = self.case.sizes_of(lists)
        if key not in self.cards:
            requests = isinstance(self.traffic, RequestTrace)
            seen = self.case.observe(self.traffic, lists) if requests else self.before
            self.cards[key] = self.case.score(lists, seen)
        return self.cards[key]

    def _constraints(self, card: Scorecard, plan: _Plan) -> tuple[dict[str, float], list[str]]:
        """Excess over every constraint (feasible at 0 or less), and a sentence for each that is broken."""
        budget = self.case.budget
        excess: dict[str, float] = {}
        reasons = []
        if plan.broken is not None:
            excess["list"] = 1.0
            reasons.append(plan.broken)
        if np.isfinite(budget.regret):
            excess["regret"] = 1.0 if card.worst_regret is None else card.worst_regret - budget.regret * (1 + 1e-9)
        for name, limit, value in (
            ("memory_mib", budget.max_memory_mib, card.memory_mib),
            ("capture_s", budget.max_capture_s, card.capture_s),
            ("max_length", budget.max_length, float(card.list_length)),
        ):
            if limit is not None:
                excess[name] = 1.0 if value is None else value - limit * (1 + 1e-9)
        refused = self.case.refused(plan.lists)
        if refused is not None:
            excess["refused"] = 1.0
            reasons.append(f"the engine refuses it: {refused}")
        if excess.get("regret", 0.0) > 0 and card.worst_regret is not None:
            reasons.append(
                f"regret {card.worst_regret:.3f} at size {card.worst_regret_size} is above {budget.regret:g}"
            )
        over = [name for name in ("memory_mib", "capture_s", "max_length") if excess.get(name, 0.0) > 0]
        reasons += [f"{name} is over its budget or unknown" for name in over]
        return excess, reasons

    def _frozen(self, trial: Trial, plan: _Plan, constraints: dict[str, float]) -> FrozenTrial:
        params = dict(trial.params)
        failed = trial.state == "failed"
        frozen = create_trial(
            state=TrialState.FAIL if failed else TrialState.COMPLETE,
            values=None if failed else list(trial.values.values()),
            params=params,
            distributions={name: self.space[name] for name in params},
            user_attrs=_attributes(trial, plan),
        )
        for name, excess in constraints.items():
            frozen.set_constraint(name, excess)
        return frozen


def _attributes(trial: Trial, plan: _Plan) -> dict[str, Any]:
    sizes = next(iter(trial.lists.values()))
    kept = {"source": trial.source, "state": trial.state, "reason": trial.reason, "broken": plan.broken}
    return kept | {"sizes": json.dumps([int(size) for size in sizes])}
