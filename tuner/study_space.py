"""What a study varies, and how its parameters become lists: the exact solver is the decoder.

The recurrence answers for one histogram and one set of engine options. What it cannot see is varied here: how many
sizes, the price of one more graph, whether steps or tokens count, the largest covered size, whether the list is fitted
to the traffic that the engine's default makes or to what a first list makes, and engine options such as scheduler
limits, each with the traffic under it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tuner.case import Case
from tuner.engines.base import Lists
from tuner.exact import solve
from tuner.front import length_bound
from tuner.ladders import Ladder, padding_bounded, powers_of_two, quantiles
from tuner.programme import Problem
from tuner.traffic import Observed
from workloads.errors import BadUsage, CaptuneError, Infeasible
from workloads.traces.records import RequestTrace, Traffic

KNEES = (4, 8, 16, 24)
"""Lengths tried first: measured curves have few levels, and the front is flat after them."""
LEAST_PRICE_MS, MOST_PRICE_MS = 1e-4, 0.1
"""Range of the price of one more graph, in mean step milliseconds."""
MOST_COMBINATIONS = 16
"""Of searched options, tried one by one before anything is sampled."""
MOST_ROUNDS = 2
"""Solving and simulating in turn moves a list no further as a rule (`tuner.closed_loop` follows it to the end)."""
PADDING_SHARE = 0.25
"""Of the padding-bounded ladder: no step with more padded slots than this."""


@dataclass(frozen=True, slots=True)
class Searched:
    """Engine options that a study varies beside the list.

    Attributes:
        raw: the options that stay, as given (`--set`).
        choices: option name -> its values.
    """

    raw: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in self.choices.items():
            if len(set(values)) != len(values) or not values:
                raise BadUsage(f"{name} needs values, each of them once", field="search")


@dataclass(frozen=True)
class Setting:
    """One combination of engine options with the traffic that they make under the engine's default list."""

    case: Case
    before: Observed

    @cached_property
    def problem(self) -> Problem:
        return self.case.problem(self.before, "step")

    @property
    def longest(self) -> int:
        return min(length_bound(self.case.budget, self.case.allowed), len(self.problem.candidates))


@dataclass(frozen=True, slots=True)
class Plan:
    """A list to evaluate and where it comes from.

    Attributes:
        setting: the options that it runs under.
        params: a point of the space. A ladder stands where the solver's list of its length would, since samplers need
            coordinates; `source` tells it apart.
        broken: why the list was decoded without the constraints.
    """

    source: str
    setting: Setting
    params: Mapping[str, Any]
    lists: Lists
    broken: str | None = None


class Space:
    """The space of one study.

    Args:
        case, before: the request as it stands, and its traffic under the engine's default lists.
    """

    def __init__(self, case: Case, traffic: Traffic, before: Observed, searched: Searched | None = None) -> None:
        self.searched = searched or Searched()
        self._traffic = traffic
        self._settings: dict[tuple[str, ...], Setting] = {}
        self.base = Setting(case, before)
        self.distributions: dict[str, BaseDistribution] = {
            "list_length": IntDistribution(1, self.base.longest),
            "token_weight": FloatDistribution(0.0, 1.0),
            "price_ms": FloatDistribution(LEAST_PRICE_MS, MOST_PRICE_MS, log=True),
        }
        if isinstance(traffic, RequestTrace):
            self.distributions["rounds"] = IntDistribution(1, MOST_ROUNDS)
        if math.isinf(case.budget.regret):  # otherwise the end of the engine's own range belongs to every list
            top = int(self.base.problem.candidates[-1])
            self.distributions["largest"] = IntDistribution(1, top, log=True)
        for name, values in self.searched.choices.items():
            self.distributions[name] = CategoricalDistribution(values)

    def setting(self, params: Mapping[str, Any]) -> Setting:
        """The options of a point.

        Raises:
            CaptuneError: the engine refuses them, or the profile does not know the steps that they make.
        """
        if not self.searched.choices:
            return self.base
        key = tuple(params[name] for name in self.searched.choices)
        if key not in self._settings:
            chosen = dict(zip(self.searched.choices, key, strict=True))
            case = self.base.case
            varied = replace(case, options=case.engine.options({**self.searched.raw, **chosen}))
            self._settings[key] = Setting(varied, varied.observe(self._traffic, varied.default_lists()))
        return self._settings[key]

    def decode(self, params: Mapping[str, Any]) -> Plan:
        """The exact solver's list for a point, solved again on its own traffic where `rounds` says so.

        An empty list with the reason where the engine refuses the options, or they make steps of unknown time.
        """
        try:
            setting = self.setting(params)
            plan = self._solved(setting, params)
            for _ in range(params.get("rounds", 1) - 1):
                if plan.broken is None:
                    own = setting.case.observe(self._traffic, plan.lists)
                    plan = replace(self._solved(Setting(setting.case, own), params), setting=setting)
        except CaptuneError as error:
            return Plan("study", self.base, params, self.base.case.lists_of(()), str(error))
        return plan

    def _solved(self, setting: Setting, params: Mapping[str, Any]) -> Plan:
        """Without the constraints where no list keeps them."""
        histogram, problem = setting.before.decode, setting.problem
        weight = params["token_weight"]
        weights = histogram.steps * histogram.sizes.astype(np.float64) ** weight
        shared = tuple(replace(other, weights=other.weights * other.sizes**weight) for other in problem.shared)
        problem = replace(
            problem,
            weights=weights,
            shared=shared,
            price_ms=np.full(len(problem.candidates), params["price_ms"]),
        )
        if "largest" in params:
            problem = _up_to(problem, params["largest"])
        length = min(params["list_length"], len(problem.candidates))
        try:
            return Plan("study", setting, params, setting.case.lists_of(solve(problem, length).front[-1].sizes))
        except Infeasible as error:
            broken = error.message
        # A list that breaks the constraints still tells the sampler how far off this corner is.
        required = problem.required[:0]
        free = replace(problem, regret=np.inf, resources=(), required=required, most_tail_share=1.0)
        try:
            sizes = solve(free, length).front[-1].sizes
        except Infeasible:
            sizes = ()
        return Plan("study", setting, params, setting.case.lists_of(sizes), broken)

    def first_plans(self) -> list[Plan]:
        """The engine's default, ladders by rule of thumb, then the solver's lists.

        Those are of lengths where fronts bend, and of the longest one under every combination of options, or where
        these are too many, under every option's values in turn.
        """
        case, candidates = self.base.case, self.base.problem.candidates
        default = case.sizes_of(case.default_lists())
        histogram = self.base.before.decode
        half = len(default) // 2
        ladders: dict[str, Ladder] = {
            "default": default,
            "powers_of_two": powers_of_two(case.allowed),
            "quantiles": quantiles(histogram, candidates, max(1, min(half, self.base.longest))),
            "padding_bounded": padding_bounded(candidates, PADDING_SHARE),
        }
        plans = [Plan(name, self.base, self._point(sizes), case.lists_of(sizes)) for name, sizes in ladders.items()]
        lengths = sorted({min(k, self.base.longest) for k in (*KNEES, half) if k})
        start = self._point(default)
        points = [start | {"list_length": length} for length in lengths]
        points += [start | {"list_length": self.base.longest} | chosen for chosen in self._combinations()]
        return plans + [self.decode(point) for point in points]

    def _combinations(self) -> list[dict[str, str]]:
        choices = self.searched.choices
        if not choices:
            return []
        if math.prod(len(values) for values in choices.values()) <= MOST_COMBINATIONS:
            return [dict(zip(choices, chosen, strict=True)) for chosen in itertools.product(*choices.values())]
        return [{name: value} for name, values in choices.items() for value in values]

    def _point(self, sizes: Ladder) -> dict[str, Any]:
        point: dict[str, Any] = {
            "list_length": max(1, min(len(sizes), self.base.longest)),
            "token_weight": float(self.base.case.objective == "token"),
            "price_ms": LEAST_PRICE_MS,
        }
        if "rounds" in self.distributions:
            point["rounds"] = 1
        if "largest" in self.distributions:
            point["largest"] = min(sizes[-1] if sizes else 1, int(self.base.problem.candidates[-1]))
        # The options as asked for may not be among the choices; the first choice then lends its coordinate.
        return point | {name: self._asked(name, values) for name, values in self.searched.choices.items()}

    def _asked(self, name: str, values: tuple[str, ...]) -> str:
        asked = self.searched.raw.get(name)
        return asked if asked in values else values[0]


def _up_to(problem: Problem, largest: int) -> Problem:
    """Cover sizes up to the last candidate within `largest`, and none above; at least the smallest candidate."""
    count = max(1, int(np.searchsorted(problem.candidates, largest, side="right")))
    count = max(count, int(np.searchsorted(problem.candidates, problem.required.max(initial=0))) + 1)
    count = min(count, len(problem.candidates))
    last = problem.candidates[count - 1 : count]
    return replace(
        problem,
        candidates=problem.candidates[:count],
        bucket_ms=problem.bucket_ms[:count],
        promised_ms=None if problem.promised_ms is None else problem.promised_ms[:count],
        price_ms=None if problem.price_ms is None else problem.price_ms[:count],
        required=np.union1d(problem.required, last).astype(np.int64),
        shared=tuple(replace(other, bucket_ms=other.bucket_ms[:count]) for other in problem.shared),
        resources=tuple(replace(resource, used=resource.used[:count]) for resource in problem.resources),
    )
