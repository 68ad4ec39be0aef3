"""Case: one engine, one profile, one budget; what recommend, study, closed loop and rehearsal all ask about a list."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.budget import Budget
from tuner.confidence import Confidence
from tuner.cost_profile import CostProfile
from tuner.dispatch import DispatchTable, FamilyDispatch
from tuner.engines.base import AllowedSizes, Engine, Lists
from tuner.engines.kv import KvTokens
from tuner.front import Front, best_front, problem_of, weights_of
from tuner.guard import Guard
from tuner.kv_cache import graph_memory, kv_cache
from tuner.programme import Problem
from tuner.recommendation import Objective, Scorecard, ServingOptions, Target, TuneRequest
from tuner.scorecard import list_regret, score
from tuner.step_cost import step_cost, terms_ms
from tuner.traffic import Observed, dispatch_of, observe
from workloads.histogram import StepHistogram
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
        """What the engine admits; under a regret bound the end of the engine's own range belongs to every list.

        Steps above the last bucket run the engine's own fallback, which a profile of plain torch does not know for
        sure; so coverage is never traded away for a figure that rests on it.
        """
        allowed = self.engine.allowed(self.options)
        if math.isinf(self.budget.regret):
            return allowed
        allowed = replace(allowed, largest=max(allowed.largest, self._mixed_top))
        return replace(allowed, required=tuple(sorted({*allowed.required, self._top(allowed)})))

    @property
    def _mixed_top(self) -> int:
        """Largest default size where prefill chunks share steps, and so the list, with decode rows; 0 elsewhere."""
        shared = len(self.engine.list_families[self.engine.list_names[0]]) > 1
        if not shared or (self.serving.policy or self.engine.policy) != "vllm":
            return 0
        return max(self.sizes_of(self.default_lists()), default=0)

    def wide(self, reachable: int) -> tuple[int, float] | None:
        """The promise about mixed steps that are larger than any decode step: (largest, regret); None without any.

        vLLM: a step with prefill tokens has any number of tokens, and its PIECEWISE graphs come from the same list.
        The list may not treat them worse than the default's own worst size does.
        """
        if math.isinf(self.budget.regret) or self._mixed_top <= reachable:
            return None
        family = self.engine.decode_family
        buckets = np.array(self.sizes_of(self.default_lists()), dtype=np.int64)
        dispatch = DispatchTable.plain(family, buckets)
        own, _ = list_regret(self.profile, dispatch, family, self._mixed_top, self.allowed)
        return self._mixed_top, max(self.budget.regret, own or 0.0)

    def _top(self, allowed: AllowedSizes) -> int:
        """The end of the engine's own list, or of what its steps can reach where that is less, as far as was measured.

        A tuned list never covers less than the default; beyond that the regret of the measured fallback decides.
        """
        sizes = self.profile.family(self.engine.decode_family).sizes
        reach = min(allowed.reachable, max(self.sizes_of(self.default_lists()), default=allowed.reachable))
        if self.serving.max_running is not None:
            reach = min(reach, self.serving.max_running * self.engine.step_tokens_per_request(self.options))
        reach = max(reach, self._mixed_top)
        top = min(allowed.largest, reach) // allowed.multiple_of * allowed.multiple_of
        if top <= sizes[-1]:
            return max(top, allowed.multiple_of)
        admitted = sizes[sizes % allowed.multiple_of == 0]
        return int(admitted[-1]) if len(admitted) else top

    @property
    def confidence(self) -> Confidence:
        """Intervals of the profile's readings, and the curve that lists are chosen on."""
        return Confidence.of(self.profile.family(self.engine.decode_family))

    @property
    def notes(self) -> tuple[str, ...]:
        """What this case assumes."""
        unmeasured = [n for n in self.allowed.required if n not in self.profile.family(self.engine.decode_family).sizes]
        return tuple(
            f"size {n} must be in the list but was not measured; its time is interpolated between its neighbours"
            for n in unmeasured
        )

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

    def at_context_of(self, observed: Observed) -> Case:
        """This case with the profile's times at the mean context of a workload, where that is known; buckets differ by
        how long they wait for a row of it (`tuner.longest_row`)."""
        context = observed.decode.mean_context
        if context is None:
            return self
        per_request = self.engine.step_tokens_per_request(self.options)
        return replace(self, profile=self.profile.at_context(context * per_request))

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

    def kv(self, lists: Lists) -> KvTokens:
        """The KV cache that the engine's rule leaves under `lists`."""
        return kv_cache(self.engine, self.options, self.profile, self._asked(lists))

    def set_aside_mib(self, lists: Lists) -> float | None:
        """MiB that the engine keeps away from the KV cache for the graphs of `lists`; None where it is not known."""
        memory = graph_memory(self.profile, self.engine.decode_family)
        return self.engine.reserved_mib(self._asked(lists), self.options, memory)

    def refused(self, lists: Lists) -> str | None:
        """Why the engine would not start with `lists`; None where it starts."""
        return self.engine.effective(self._asked(lists), self.options).refused

    def front(
        self,
        observed: Observed,
        budget: Budget | None = None,
        guard: Guard | None = None,
        target: Target | None = None,
    ) -> Front:
        """The exact front for a workload, or for its guarded histogram; see `tuner.front.best_front`.

        Args:
            target: what it minimises; None is the objective of this case.
        """
        guarded = None if guard is None else guard.spread(observed.decode, observed.reachable)
        return best_front(
            observed.decode,
            self.profile,
            observed.decode_family,
            budget=budget or self.budget,
            objective=target or self.objective,
            allowed=self.allowed,
            rule=self.rule,
            reachable=observed.reachable,
            wide=self.wide(observed.reachable),
            guarded=guarded,
            read=self.confidence.read,
            others=self.others(observed),
        )

    def problem(self, observed: Observed, objective: Objective, *, cautious: bool = True) -> Problem:
        """What the exact solver answers for a workload; see `tuner.front.problem_of`.

        Args:
            cautious: on the curve that lists are chosen on; else on the readings themselves.
        """
        return problem_of(
            observed.decode,
            self.profile.family(observed.decode_family),
            budget=self.budget,
            objective=objective,
            allowed=self.allowed,
            rule=self.rule,
            reachable=observed.reachable,
            wide=self.wide(observed.reachable),
            read=self.confidence.read if cautious else None,
            others=[(steps, self.profile.family(name)) for name, steps in self.others(observed).items()],
        )

    def others(self, observed: Observed) -> dict[str, StepHistogram]:
        """Steps of other families that run in graphs of the tuned list, where the profile measured those.

        vLLM's mixed steps run in PIECEWISE graphs of the sizes that FULL ones have. SGLang's draft graphs take the
        decode list and run once a decode step.
        """
        made = {}
        for name in self.engine.list_families[self.engine.list_names[0]]:
            steps = observed.decode if name == "draft" else observed.histograms.get(name)
            if name != observed.decode_family and name in self.profile.families and steps is not None:
                made[name] = steps
        return made

    def figure_ms(self, lists: Lists, observed: Observed) -> float:
        """What lists are judged by on a workload: `cost_ms` and `others_ms`."""
        return self.cost_ms(self.score(lists, observed)) + self.others_ms(lists, observed)

    def others_ms(self, lists: Lists, observed: Observed) -> float:
        """What steps of other families on the list (`others`) add to a decode step, or to a token.

        By the engine's dispatch and the readings themselves. Steps above every size that a list may hold are left out:
        they cost the same whatever the list. inf where the time of a step is unknown.
        """
        others = self.others(observed)
        if not others:
            return 0.0
        largest = self.problem(observed, self.objective).candidates[-1]
        buckets = np.array(self.sizes_of(lists), dtype=np.int64)
        total = 0.0
        for name, steps in others.items():
            cost = step_cost(self.profile, DispatchTable.plain(name, buckets), name, steps.sizes)
            step_ms = cost.ms + terms_ms(self.profile.family(name), steps)
            servable = steps.sizes <= largest
            total += float(weights_of(steps, self.objective)[servable] @ step_ms[servable])
        per_step = total / float(weights_of(observed.decode, self.objective).sum())
        return math.inf if math.isnan(per_step) else per_step

    def cost_ms(self, card: Scorecard) -> float:
        """The figure that the objective minimises; inf where it is unknown."""
        value = card.mean_step_ms if self.objective == "step" else card.tpot_ms
        return float("inf") if value is None else value

    def _asked(self, lists: Lists) -> Lists:
        # Engines read a list that is not named as their default. An empty default means graphs are off already.
        return {name: sizes for name, sizes in lists.items() if sizes}
