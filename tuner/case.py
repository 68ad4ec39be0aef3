"""Case: one engine, one profile, one budget; what recommend, study, closed loop and rehearsal all ask about a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tuner.budget import Budget
from tuner.cost_profile import CostProfile
from tuner.dispatch import FamilyDispatch
from tuner.engines.base import AllowedSizes, Engine, Lists
from tuner.front import Front, best_front
from tuner.recommendation import Objective, Scorecard, ServingOptions, TuneRequest
from tuner.scorecard import score
from tuner.traffic import Observed, dispatch_of, observe
from workloads.traces.records import Traffic


@dataclass(frozen=True, slots=True)
class Case:
    """A tuning request without its traffic. Only the list that decode steps use is tuned; others stay the engine's."""

    engine: Engine
    options: Any
    profile: CostProfile
    serving: ServingOptions
    budget: Budget
    objective: Objective

    @classmethod
    def of(cls, request: TuneRequest) -> Case:
        return cls(request.engine, request.options, request.profile, request.serving, request.budget, request.objective)

    @property
    def allowed(self) -> AllowedSizes:
        return self.engine.allowed(self.options)

    @property
    def rule(self) -> FamilyDispatch | None:
        """The engine's dispatch rule of decode steps."""
        table = dispatch_of(self.engine, self.options, self.profile, None)
        return table.families.get(self.engine.decode_family)

    def lists_of(self, sizes: tuple[int, ...]) -> Lists:
        return {self.engine.list_names[0]: sizes}

    def default_lists(self) -> Lists:
        """The engine's own list for decode steps; empty where its options switch graphs off."""
        name = self.engine.list_names[0]
        return {name: tuple(self.engine.default_lists(self.options)[name])}

    def sizes_of(self, lists: Lists) -> tuple[int, ...]:
        return tuple(lists[self.engine.list_names[0]])

    def observe(self, traffic: Traffic, lists: Lists) -> Observed:
        """Histograms of traffic; requests are simulated with the step times of `lists`."""
        return observe(traffic, self.engine, self.options, self.profile, self.serving, self._asked(lists))

    def score(self, lists: Lists, observed: Observed) -> Scorecard:
        """What `lists` do to a workload that was observed under any list."""
        effective = self.engine.effective(self._asked(lists), self.options)
        return score(
            lists,
            effective,
            self.engine.dispatch(effective, self.options),
            observed.histograms,
            self.profile,
            reachable=observed.reachable,
            decode_family=observed.decode_family,
            allowed=self.allowed,
        )

    def refused(self, lists: Lists) -> str | None:
        """Why the engine would not start with `lists`; None where it starts."""
        return self.engine.effective(self._asked(lists), self.options).refused

    def front(self, observed: Observed, budget: Budget | None = None) -> Front:
        """The exact front for a workload; see `tuner.front.best_front`."""
        return best_front(
            observed.decode,
            self.profile,
            observed.decode_family,
            budget=budget or self.budget,
            objective=self.objective,
            allowed=self.allowed,
            rule=self.rule,
            reachable=observed.reachable,
        )

    def cost_ms(self, card: Scorecard) -> float:
        """The figure that the objective minimises; inf where it is unknown."""
        value = card.mean_step_ms if self.objective == "step" else card.tpot_ms
        return float("inf") if value is None else value

    def _asked(self, lists: Lists) -> Lists:
        # Engines read a list that is not named as their default. An empty default means graphs are off already.
        return {name: sizes for name, sizes in lists.items() if sizes}
