"""The list that an experiment chooses on the engine's own profile: for one workload, or one for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from services.capture.probes.records import plain_lists
from services.capture.probes.workload import EngineWorkload
from tuner.budget import Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine, Lists
from tuner.recommend import recommend
from tuner.recommendation import Recommendation, TuneRequest
from tuner.robust import Robust, robust_list, shortest_robust
from tuner.traffic import Observed
from workloads.errors import Infeasible

_PARTS_OF_DEFAULT = (3, 2, 1)
"""Several workloads, and nobody gives a length: at most a third of the default's sizes, or more where the bound on
regret needs them. By then a machine was measured on; it is not left without a list."""


@dataclass(frozen=True, slots=True)
class TunedList:
    """The lists, where they are from, and what the profile alone says of them (None where it was not asked)."""

    lists: dict[str, tuple[int, ...]]
    requested_by: str
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Chooser:
    """What every choice of an experiment has in common.

    Attributes:
        on_recommended: called with the recommendation, where one is made.
    """

    engine: Engine
    options: Any
    raw_options: dict[str, str]
    profile: CostProfile
    budget: Budget
    trials: int
    on_recommended: Callable[[Recommendation], None]

    def choose(self, workloads: Sequence[EngineWorkload]) -> TunedList:
        """Chosen on the first parts of the workloads.

        Raises:
            BadInput, Infeasible: see `tuner.recommend.recommend` and `tuner.robust.robust_list`.
        """
        found = self._recommended(workloads[0]) if len(workloads) == 1 else self._robust(workloads)
        return replace(found, lists=self._covering(found.lists))

    def _recommended(self, workload: EngineWorkload) -> TunedList:
        found = recommend(
            TuneRequest(
                traffic=workload.fit_part,
                trace_name=workload.plan.name,
                engine=self.engine,
                options=self.options,
                profile=self.profile,
                raw_options=self.raw_options,
                serving=workload.serving,
                budget=self.budget,
                trials=self.trials,
            )
        )
        self.on_recommended(found)
        return TunedList(plain_lists(found.lists), f"profile {self.profile.name}", found.verdict)

    def _robust(self, workloads: Sequence[EngineWorkload]) -> TunedList:
        cases = [Case(self.engine, self.options, self.profile, of.serving, self.budget, "step") for of in workloads]
        case = cases[0]
        seen = {
            of.plan.name: own.observe(of.fit_part, own.default_lists())
            for of, own in zip(workloads, cases, strict=True)
        }
        found = self._least_worst(case, seen)
        proven = "proven least" if found.optimal else f"no list of that length is below {found.bound:.2%}"
        said = (
            f"profile {self.profile.name}, one list for {len(workloads)} workloads: each is at most "
            f"{found.worst_regret:.2%} above its own best list of {len(found.sizes)} sizes ({proven})"
        )
        return TunedList(plain_lists(case.lists_of(found.sizes)), said, None)

    def _least_worst(self, case: Case, seen: Mapping[str, Observed]) -> Robust:
        """Of the length that was asked for, or the shortest that is near the best one allowed."""
        if self.budget.max_length is not None:
            return robust_list(case, seen, self.budget.max_length)
        own = len(case.sizes_of(case.default_lists()))
        lengths = [max(1, own // part) for part in _PARTS_OF_DEFAULT]
        for length in lengths[:-1]:
            with contextlib.suppress(Infeasible):
                return shortest_robust(case, seen, length)
        return shortest_robust(case, seen, lengths[-1])

    def _covering(self, lists: Lists) -> dict[str, tuple[int, ...]]:
        """The lists with the end of the engine's own, where mixed steps of it are larger than any decode step.

        Such a size cannot be profiled by decoding; a tuned list never covers less than the default.
        """
        name = self.engine.list_names[0]
        covering = plain_lists(lists)
        end = max(self.engine.default_lists(self.options)[name], default=0)
        if len(self.engine.list_families[name]) > 1 and covering[name][-1] < end:
            covering[name] = (*covering[name], end)
        return covering
