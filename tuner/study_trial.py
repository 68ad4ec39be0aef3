"""One trial: a list under its options in its own closed loop, as objective values and as excess over constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tuner.recommendation import Scorecard, Trial, TrialState
from tuner.study_space import Plan, Setting, Space
from tuner.traffic import Observed
from workloads.errors import CaptuneError
from workloads.serving.report import ServingReport
from workloads.traces.records import RequestTrace, Traffic

MET = -1.0
"""Excess over a constraint that is met or not, where it is."""
ROUNDING = 1 + 1e-9
"""Sums of measured values: a list that is exactly at its budget must pass."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial, and its excess over every constraint (met at 0 or less); empty where it failed."""

    trial: Trial
    excess: Mapping[str, float]


class Evaluator:
    """Scores plans; equal lists under equal options are simulated once.

    The first objective is the time that decides: of a good request (`ms_per_good_request`) where users were promised
    something, of a generated token in wall time (`ms_per_token_served`) where scheduler options vary and step times
    would only say who runs the smaller batch, else of a step or token. Then start-up (`capture_s`, or `list_length`
    where the profile does not know it) and, where known, `memory_mib`. All are minimised.
    """

    def __init__(self, space: Space, traffic: Traffic) -> None:
        self._space, self._traffic = space, traffic
        self._seen: dict[tuple[object, tuple[int, ...]], tuple[Scorecard, Observed]] = {}
        case = space.base.case
        cost = case.profile.family(space.base.before.decode_family)
        requests = isinstance(traffic, RequestTrace)
        self.figure = "mean_step_ms" if case.objective == "step" else "tpot_ms"
        if requests and case.serving.slo.promises:
            self.figure = "ms_per_good_request"
        elif requests and space.searched.choices:
            self.figure = "ms_per_token_served"
        startup = "capture_s" if bool(np.isfinite(cost.capture_s).all()) else "list_length"
        memory = ["memory_mib"] if bool(np.isfinite(cost.memory_mib).all()) else []
        self.objectives = [self.figure, startup, *memory]

    def try_plan(self, plan: Plan, number: int) -> Tried:
        """Evaluate `plan` as trial `number`; what cannot be evaluated ends as a failed trial with its reason."""
        params = dict(plan.params) if plan.source == "study" else {}
        base = Trial(number, plan.source, "failed", params, plan.lists, {}, None)
        case = plan.setting.case
        if plan.broken is not None and not case.sizes_of(plan.lists):
            return Tried(replace(base, reason=plan.broken), {})
        try:
            card, seen = self._score(plan.setting, plan)
        except CaptuneError as error:
            return Tried(replace(base, reason=str(error)), {})
        values = self._values(plan.setting, card, seen.report)
        if not all(math.isfinite(value) for value in values.values()):
            unknown = "the profile does not know the time of every step, or what capturing every size takes"
            return Tried(replace(base, scorecard=card, reason=unknown), {})
        excess, reasons = _constraints(plan, card)
        reason = "; ".join(reasons) or None
        state: TrialState = "infeasible" if reasons else "complete"
        return Tried(replace(base, state=state, values=values, scorecard=card, reason=reason), excess)

    def _score(self, setting: Setting, plan: Plan) -> tuple[Scorecard, Observed]:
        case = setting.case
        key = (case.options, case.sizes_of(plan.lists))
        if key not in self._seen:
            requests = isinstance(self._traffic, RequestTrace)
            seen = case.observe(self._traffic, plan.lists) if requests else setting.before
            self._seen[key] = case.score(plan.lists, seen), seen
        return self._seen[key]

    def _values(self, setting: Setting, card: Scorecard, report: ServingReport | None) -> dict[str, float]:
        figure = setting.case.cost_ms(card)
        if self.figure == "ms_per_good_request":
            rate = 0.0 if report is None else report.goodput_requests_per_s or 0.0
            # No good request at all: as if there were half a one, so that worse and worst still differ from unknown.
            figure = 1e3 / rate if rate > 0 else 2e3 * (0.0 if report is None else report.makespan_s)
        elif self.figure == "ms_per_token_served" and report is not None:
            figure = 1e3 / report.throughput_tokens_per_s
        known = {
            "capture_s": card.capture_s,
            "list_length": float(card.list_length),
            "memory_mib": card.memory_mib,
        }
        values = {name: known[name] for name in self.objectives[1:]}
        return {self.figure: figure} | {name: math.nan if v is None else v for name, v in values.items()}


def _constraints(plan: Plan, card: Scorecard) -> tuple[dict[str, float], list[str]]:
    """Excess over every constraint (the same ones for every trial of a study), and a sentence for each broken one."""
    budget = plan.setting.case.budget
    refused = plan.setting.case.refused(plan.lists)
    excess = {
        "list": MET if plan.broken is None else 1.0,
        "refused": MET if refused is None else 1.0,
    }
    reasons = [] if plan.broken is None else [plan.broken]
    if refused is not None:
        reasons.append(f"the engine refuses it: {refused}")
    if math.isfinite(budget.regret):
        excess["regret"] = 1.0 if card.worst_regret is None else card.worst_regret - budget.regret * ROUNDING
    for name, limit, value in (
        ("memory_mib", budget.max_memory_mib, card.memory_mib),
        ("capture_s", budget.max_capture_s, card.capture_s),
        ("max_length", budget.max_length, float(card.list_length)),
        ("fallback_rate", budget.max_tail_share if budget.max_tail_share < 1 else None, card.fallback_rate),
    ):
        if limit is not None:
            excess[name] = 1.0 if value is None else value - limit * ROUNDING
    if excess.get("regret", 0.0) > 0 and card.worst_regret is not None:
        reasons.append(f"regret {card.worst_regret:.3f} at size {card.worst_regret_size} is above {budget.regret:g}")
    limited = ("memory_mib", "capture_s", "max_length", "fallback_rate")
    over = [name for name in limited if excess.get(name, 0.0) > 0]
    reasons += [f"{name} is over its budget or unknown" for name in over]
    return excess, reasons
