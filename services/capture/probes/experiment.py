"""The whole way inside one engine: profile it, choose a list on the first part of the traffic, compare on the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from services.capture.probes import tasks
from services.capture.probes.base import RunningEngine
from services.capture.probes.engine_profile import build_engine_profile, terms_of
from services.capture.probes.failures import EngineFailed
from services.capture.probes.order import left_to_do
from services.capture.probes.records import (
    Comparison,
    ExperimentPlan,
    Purpose,
    ReplayedStep,
    StartRecord,
    plain_lists,
)
from services.capture.probes.serving import Schedule, schedule
from services.capture.probes.starting import Starter
from services.capture.replay_job import sample_window
from services.capture.spec import default_sizes
from tuner.budget import Budget
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine, Lists
from tuner.ladders import powers_of_two
from tuner.probe_plan import ProbePlan, first_probes
from tuner.profile_file import dump_profile, parse_profile
from tuner.recommend import recommend
from tuner.recommendation import Recommendation, ServingOptions, TuneRequest
from tuner.traffic import observe
from workloads.errors import BadInput
from workloads.models.config import ModelConfig
from workloads.traces.records import RequestTrace, StepTrace, Traffic

DEFAULT, TUNED, POWERS = "default", "tuned", "powers of two"
PROFILE_FILE, LISTS_FILE = "profile.json", "lists.json"
_CONTEXT_STEP_TOKENS = 64  # contexts are rounded to it: cases that differ by less are one
_FALLBACK_LIST = (1, 2)
_FALLBACK_SIZES = 6

OnProgress = Callable[[int, str], None]
"""Told how many starts are recorded, and in a few words what is done now. Called while requests are timed: be quick."""

RoomyTask = Callable[[RunningEngine, tasks.Room, tasks.OnStep], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One folder's question, and what is needed to answer it.

    Attributes:
        options: of the engine, as its rules read them.
        starts: of the default and of the tuned list; powers of two are started once.
        log_settles_s: how long the engine takes to log what it counted.
        told: progress.
        on_recommended: called with the recommendation, where one is made here, before its list is first started.
    """

    plan: ExperimentPlan
    starter: Starter
    engine: Engine
    options: Any
    model: ModelConfig
    longest_tokens: int
    traffic: Traffic
    serving: ServingOptions
    budget: Budget
    starts: int
    trials: int = 12
    log_settles_s: float = 1.5
    told: OnProgress = field(default=lambda done, now: None)
    on_recommended: Callable[[Recommendation], None] = field(default=lambda found: None)

    def run(self) -> tuple[CostProfile, Comparison]:
        """Everything that is still to be done; the folder then holds what a report is made of.

        Raises:
            EngineFailed, MeasurementFailed: the engine could not be profiled.
            BadInput: the traffic does not fit the engine.
        """
        profile = self._profile()
        comparison = self._comparison(profile)
        wanted = {DEFAULT: self.starts, TUNED: self.starts, POWERS: 1}
        requests = self._schedule()
        while left := left_to_do(wanted, [(r.name, r.failure is None) for r in self._records("compare")]):
            told = self._telling(f"{left[0]}, {len(left)} starts left")
            task = partial(self._compared, comparison.steps, requests, told)
            self.starter.run("compare", left[0], comparison.lists[left[0]], task)
        return profile, comparison

    @property
    def fit_part(self) -> Traffic:
        """What lists are chosen on."""
        return self.traffic if self.plan.fit_share == 1 else self.traffic.window(0, self._cut)

    @property
    def test_part(self) -> Traffic:
        """What lists are compared on: later traffic than any list was chosen on, where the traffic has an order."""
        return self.traffic if self.plan.fit_share == 1 else self.traffic.window(self._cut, len(self.traffic))

    @property
    def _cut(self) -> int:
        cut = int(len(self.traffic) * self.plan.fit_share)
        if not 0 < cut < len(self.traffic):
            raise BadInput(f"{len(self.traffic)} rows are too few to choose a list on one part and compare on another")
        return cut

    @property
    def _own_end(self) -> int:
        """The end of the engine's own list, or of its decode steps where it makes none."""
        own = self.engine.default_lists(self.options)[self.engine.list_names[0]]
        return max(own, default=self.engine.allowed(self.options).reachable)

    @property
    def _candidates(self) -> tuple[int, ...]:
        """Sizes that may be profiled: what the engine captures as asked, up to the end of its own list."""
        allowed = self.engine.allowed(self.options)
        top = min(allowed.reachable, self._own_end, allowed.largest)
        top = top // allowed.multiple_of * allowed.multiple_of
        return tuple(size for size in default_sizes(top) if size % allowed.multiple_of == 0)

    def _lists(self, sizes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        return {self.engine.list_names[0]: tuple(int(size) for size in sizes)}

    def _powers(self, largest: int) -> tuple[int, ...]:
        return powers_of_two(replace(self.engine.allowed(self.options), largest=largest))

    def _records(self, purpose: Purpose) -> list[StartRecord]:
        return [record for record in self.starter.folder.starts() if record.purpose == purpose]

    def _measured(self, purpose: Purpose) -> list[StartRecord]:
        return [record for record in self._records(purpose) if record.failure is None]

    def _telling(self, where: str) -> tasks.OnStep:
        """Progress of the start that begins now."""
        done = len(self.starter.folder.starts())
        self.told(done, f"{where}: starting")
        return lambda what: self.told(done, f"{where}: {what}")

    def _room(self) -> tasks.Room:
        known = [record.kv_tokens for record in self.starter.folder.starts() if record.kv_tokens]
        return tasks.Room(self.longest_tokens, min(known, default=None))

    def _profile(self) -> CostProfile:
        """The engine's profile: read back where its starts are recorded, measured where they are missing."""
        folder, top = self.starter.folder, self._candidates[-1]
        powers = self._powers(top)
        self._measure("steps", powers, partial(self._priced, powers))
        few = first_probes(top)[:: max(1, len(first_probes(top)) // _FALLBACK_SIZES)]
        eager = tuple(dict.fromkeys(size for size in (*few, top) if size > _FALLBACK_LIST[-1]))
        if eager:
            self._measure("fallback", _FALLBACK_LIST, partial(self._timed, eager))
        for _ in range(self.plan.profile_starts - len(self._measured("profile"))):
            found = {timing.rows for record in self._measured("profile") for timing in record.steps}
            # What the first start found worth reading is what the others read again.
            task = partial(self._timed, tuple(sorted(found))) if found else partial(self._probed, self._probe_plan())
            self._measure_once("profile", self._candidates, task)
        stored = folder.path / PROFILE_FILE
        if not stored.is_file():
            folder.write_text(PROFILE_FILE, dump_profile(self._built()))
        return parse_profile(stored.read_bytes(), file=str(stored))

    def _built(self) -> CostProfile:
        return build_engine_profile(
            self.starter.folder.starts(),
            engine=self.engine,
            model=self.model,
            dummy_weights=self.plan.dummy_weights,
            context_tokens=self.plan.context_tokens,
            protocol=self.plan.protocol,
            command=self.plan.command,
        )

    def _probe_plan(self) -> ProbePlan:
        """Probes aim at the steps that this traffic makes, as far as the coarse profile can tell."""
        candidates = self._candidates
        seen = observe(self.fit_part, self.engine, self.options, self._built(), self._serving()).decode
        within = seen.sizes <= candidates[-1]
        return ProbePlan(candidates, tuple(seen.sizes[within].tolist()), tuple(seen.steps[within].tolist()))

    def _serving(self) -> ServingOptions:
        """With the KV cache that the engine reported, where nobody gave one."""
        return replace(self.serving, kv_tokens=self.serving.kv_tokens or self._room().kv_tokens)

    def _measure(self, purpose: Purpose, sizes: tuple[int, ...], task: RoomyTask) -> None:
        if not self._measured(purpose):
            self._measure_once(purpose, sizes, task)

    def _measure_once(self, purpose: Purpose, sizes: tuple[int, ...], task: RoomyTask) -> None:
        told = self._telling(f"profiling ({purpose})")

        def work(engine: RunningEngine) -> Mapping[str, Any]:
            return task(engine, tasks.Room(self.longest_tokens, engine.observe().kv_tokens), told)

        record = self.starter.run(purpose, purpose, self._lists(sizes), work)
        if record.failure is not None:
            raise EngineFailed(record.failure)

    def _priced(
        self, powers: tuple[int, ...], engine: RunningEngine, room: tasks.Room, told: tasks.OnStep
    ) -> Mapping[str, Any]:
        return tasks.price_steps(engine, powers, self.plan.context_tokens, room, self.plan.protocol, told)

    def _timed(
        self, sizes: tuple[int, ...], engine: RunningEngine, room: tasks.Room, told: tasks.OnStep
    ) -> Mapping[str, Any]:
        return tasks.time_sizes(engine, sizes, self.plan.context_tokens, room, self.plan.protocol, told)

    def _probed(
        self, plan: ProbePlan, engine: RunningEngine, room: tasks.Room, told: tasks.OnStep
    ) -> Mapping[str, Any]:
        terms = terms_of(self.starter.folder.starts(), self.engine)
        return tasks.probe_sizes(engine, plan, terms, self.plan.context_tokens, room, self.plan.protocol, told)

    def _compared(
        self, steps: tuple[ReplayedStep, ...], requests: Schedule | None, told: tasks.OnStep, engine: RunningEngine
    ) -> Mapping[str, Any]:
        name = self.engine.name
        return tasks.compare_list(engine, name, steps, requests, self.plan.protocol, told, self.log_settles_s)

    def _comparison(self, profile: CostProfile) -> Comparison:
        """Lists and steps, fixed before the first comparing start."""
        stored = self.starter.folder.read(LISTS_FILE, Comparison)
        if stored is not None:
            return stored
        before = None
        tuned, origin = self.plan.lists, self.plan.lists_from or "given"
        if tuned is None:
            found = recommend(
                TuneRequest(
                    traffic=self.fit_part,
                    trace_name=self.plan.workload,
                    engine=self.engine,
                    options=self.options,
                    profile=profile,
                    raw_options=self.plan.options,
                    serving=self._serving(),
                    budget=self.budget,
                    trials=self.trials,
                )
            )
            self.on_recommended(found)
            tuned, origin, before = self._covering(found.lists), f"profile {profile.name}", found.verdict
        comparison = Comparison(
            lists={DEFAULT: None, TUNED: tuned, POWERS: self._lists(self._powers(self._own_end))},
            steps=self._steps(profile),
            requested_by=origin,
            verdict_before=before,
            profile_digest=profile.digest(),
        )
        self.starter.folder.write(LISTS_FILE, Comparison, comparison)
        return comparison

    def _covering(self, lists: Lists) -> dict[str, tuple[int, ...]]:
        """The lists with the end of the engine's own, where mixed steps of it are larger than any decode step.

        Such a size cannot be profiled by decoding; a tuned list never covers less than the default.
        """
        name = self.engine.list_names[0]
        covering = plain_lists(lists)
        if len(self.engine.list_families[name]) > 1 and covering[name][-1] < self._own_end:
            covering[name] = (*covering[name], self._own_end)
        return covering

    def _steps(self, profile: CostProfile) -> tuple[ReplayedStep, ...]:
        """Recorded (or simulated) decode steps of the test part, as many as are replayed."""
        seen = observe(self.test_part, self.engine, self.options, profile, self._serving())
        family, room = seen.decode_family, self._room()
        known = bool(np.isfinite(seen.steps.kv_tokens).any())
        window = sample_window(seen.steps, family, name=self.plan.workload, limit=self.plan.replay_steps)
        weights: dict[tuple[int, int], float] = {}
        for step in window.steps:
            wanted = step.kv_tokens // step.rows if known else self.plan.context_tokens
            rounded = max(1, round(wanted / _CONTEXT_STEP_TOKENS)) * _CONTEXT_STEP_TOKENS
            key = step.rows, room.context(step.rows, rounded)
            weights[key] = weights.get(key, 0.0) + step.weight
        return tuple(ReplayedStep(rows, context, weight) for (rows, context), weight in sorted(weights.items()))

    def _schedule(self) -> Schedule | None:
        part = self.test_part
        if self.plan.serve_s == 0 or not isinstance(part, RequestTrace):
            return None
        return schedule(part, load=self.plan.load, within_s=self.plan.serve_s, longest_tokens=self.longest_tokens)


def typical_context(traffic: Traffic, otherwise: int = 1024) -> int:
    """Mean tokens that one row of a decode step attends to, over the steps that this traffic makes."""
    if isinstance(traffic, StepTrace):
        known = np.isfinite(traffic.kv_tokens)
        if not known.any():
            return otherwise
        rows = traffic.size[known] * traffic.steps[known]
        tokens = max(1.0, float((traffic.kv_tokens[known] * traffic.steps[known]).sum() / rows.sum()))
    else:
        outputs = traffic.output_tokens.astype(np.float64)
        tokens = float(outputs @ (traffic.input_tokens + outputs / 2) / outputs.sum())
    return max(_CONTEXT_STEP_TOKENS, round(tokens / _CONTEXT_STEP_TOKENS) * _CONTEXT_STEP_TOKENS)
