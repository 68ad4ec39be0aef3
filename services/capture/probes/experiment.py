"""The whole way inside one engine: profile it, choose a list on the first part of the traffic, compare on the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from services.capture.probes import tasks
from services.capture.probes.base import RunningEngine
from services.capture.probes.compare_task import LOG_SETTLES_S, compare_list
from services.capture.probes.engine_profile import build_engine_profile, terms_of
from services.capture.probes.failures import EngineFailed
from services.capture.probes.order import left_to_do, turns
from services.capture.probes.records import Comparison, ExperimentPlan, Purpose, StartRecord, plain_lists
from services.capture.probes.replayed_steps import compared_workload
from services.capture.probes.serving import Schedule
from services.capture.probes.starting import Starter
from services.capture.probes.time_limit import TimeLimit
from services.capture.probes.tuned_list import Chooser, TunedList
from services.capture.probes.workload import EngineWorkload
from services.capture.spec import default_sizes
from tuner.budget import Budget
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine
from tuner.ladders import powers_of_two
from tuner.probe_plan import ProbePlan
from tuner.profile_file import dump_profile, parse_profile
from tuner.recommendation import Recommendation
from tuner.traffic import observe
from workloads.models.config import ModelConfig

DEFAULT, TUNED, POWERS = "default", "tuned", "powers of two"
PROFILE_FILE, LISTS_FILE = "profile.json", "lists.json"

OnProgress = Callable[[int, str], None]
"""Told how many starts are recorded, and in a few words what is done now. Called while requests are timed: be quick."""

RoomyTask = Callable[[RunningEngine, tasks.Room, tasks.OnStep], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the folder holds; both are None while the profile is not complete.

    Attributes:
        left: names of the starts that the time limit left undone.
    """

    profile: CostProfile | None
    comparison: Comparison | None
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One folder's question, and what is needed to answer it.

    Attributes:
        options: of the engine, as its rules read them.
        workloads: in the order of the plan.
        starts: of the default and of the tuned list; powers of two are started once.
        log_settles_s: how long the engine takes to log what it counted.
        limit: no start begins that would end later.
        told: progress.
        on_start: called with the record of every start once it is over.
        on_recommended: called with the recommendation, where one is made here, before its list is first started.
    """

    plan: ExperimentPlan
    starter: Starter
    engine: Engine
    options: Any
    model: ModelConfig
    longest_tokens: int
    workloads: tuple[EngineWorkload, ...]
    budget: Budget
    starts: int
    trials: int = 12
    log_settles_s: float = LOG_SETTLES_S
    limit: TimeLimit = field(default_factory=TimeLimit)
    told: OnProgress = field(default=lambda done, now: None)
    on_start: Callable[[StartRecord], None] = field(default=lambda record: None)
    on_recommended: Callable[[Recommendation], None] = field(default=lambda found: None)

    def run(self) -> Outcome:
        """Everything that is still to be done in the time; the folder then holds what a report is made of.

        Raises:
            EngineFailed, MeasurementFailed: the engine could not be profiled.
            BadInput: the traffic does not fit the engine.
        """
        wanted = {DEFAULT: self.starts, TUNED: self.starts, POWERS: 1}
        schedules = self._schedules()  # before any start: requests that cannot be sent are bad input
        while unprofiled := self._unprofiled():
            if not self._in_time(unprofiled[0]):
                return Outcome(None, None, (*unprofiled, *turns(wanted)))
            self._measure(unprofiled[0])
        profile = self._profile()
        comparison = self._comparison(profile)
        while left := left_to_do(wanted, [(r.name, r.failure is None) for r in self._records("compare")]):
            if not self._in_time("compare", self.plan.serve_s * len(schedules)):
                break
            told = self._telling(f"{left[0]}, {len(left)} starts left")
            task = partial(self._compared, comparison, schedules, told)
            self.on_start(self.starter.run("compare", left[0], comparison.lists[left[0]], task))
        return Outcome(profile, comparison, left)

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

    def _in_time(self, purpose: Purpose, least_s: float = 0.0) -> bool:
        return self.limit.admits(purpose, self.starter.folder.starts(), least_s)

    def _telling(self, where: str) -> tasks.OnStep:
        """Progress of the start that begins now."""
        done = len(self.starter.folder.starts())
        self.told(done, f"{where}: starting")
        return lambda what: self.told(done, f"{where}: {what}")

    def _room(self) -> tasks.Room:
        known = [record.kv_tokens for record in self.starter.folder.starts() if record.kv_tokens]
        return tasks.Room(self.longest_tokens, min(known, default=None), self.plan.protocol)

    def _unprofiled(self) -> tuple[Purpose, ...]:
        """Profiling starts that are still to be done, in order."""
        wanted: dict[Purpose, int] = {"steps": 1, "profile": self.plan.profile_starts}
        done = Counter(record.purpose for record in self.starter.folder.starts() if record.failure is None)
        return tuple(purpose for purpose, count in wanted.items() for _ in range(count - done[purpose]))

    def _profile(self) -> CostProfile:
        """As it stands in the folder; built from its starts the first time."""
        folder = self.starter.folder
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

    def _measure(self, purpose: Purpose) -> None:
        """One profiling start.

        Raises:
            EngineFailed: it failed, as the next one would.
        """
        sizes, task = self._profiling(purpose)
        told = self._telling(f"profiling ({purpose})")

        def work(engine: RunningEngine) -> Mapping[str, Any]:
            room = tasks.Room(self.longest_tokens, engine.observe().kv_tokens, self.plan.protocol)
            return task(engine, room, told)

        record = self.starter.run(purpose, purpose, self._lists(sizes), work)
        self.on_start(record)
        if record.failure is not None:
            raise EngineFailed(record.failure)

    def _profiling(self, purpose: Purpose) -> tuple[tuple[int, ...], RoomyTask]:
        """What is captured, and what is read."""
        if purpose == "steps":
            coarse = tasks.coarse_sizes(self._candidates, self._powers(self._candidates[-1]))
            return coarse.captured, partial(self._priced, coarse)
        found = {timing.rows for record in self._measured("profile") for timing in record.steps}
        # What the first start found worth reading is what the others read again.
        task = partial(self._timed, tuple(sorted(found))) if found else partial(self._probed, self._probe_plan())
        return self._candidates, task

    def _probe_plan(self) -> ProbePlan:
        """Probes aim at the steps that the workloads make, all alike, as far as the coarse profile can tell."""
        candidates, coarse = self._candidates, self._built()
        weights: Counter[int] = Counter()
        for workload in self._with_kv_cache():
            seen = observe(workload.fit_part, self.engine, self.options, coarse, workload.serving).decode
            share = seen.steps / seen.steps.sum()
            weights.update(dict(zip(seen.sizes.tolist(), share.tolist(), strict=True)))
        within = sorted((size, weight) for size, weight in weights.items() if size <= candidates[-1])
        return ProbePlan(candidates, tuple(size for size, _ in within), tuple(weight for _, weight in within))

    def _with_kv_cache(self) -> tuple[EngineWorkload, ...]:
        """The workloads with the KV cache that the engine reported, where nobody gave one."""
        known = self._room().kv_tokens
        return tuple(
            replace(of, serving=replace(of.serving, kv_tokens=of.serving.kv_tokens or known)) for of in self.workloads
        )

    def _priced(
        self, coarse: tasks.CoarseSizes, engine: RunningEngine, room: tasks.Room, told: tasks.OnStep
    ) -> Mapping[str, Any]:
        return tasks.price_steps(engine, coarse, self.plan.context_tokens, room, self.plan.protocol, told)

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
        self, comparison: Comparison, schedules: Mapping[str, Schedule], told: tasks.OnStep, engine: RunningEngine
    ) -> Mapping[str, Any]:
        name, protocol = self.engine.name, self.plan.protocol
        return compare_list(engine, name, comparison.cases, schedules, protocol, told, self.log_settles_s)

    def _comparison(self, profile: CostProfile) -> Comparison:
        """Lists and steps, fixed before the first comparing start."""
        stored = self.starter.folder.read(LISTS_FILE, Comparison)
        if stored is not None:
            return stored
        workloads = self._with_kv_cache()
        tuned = self._tuned(profile, workloads)
        compared = tuple(
            compared_workload(
                workload,
                self.engine,
                self.options,
                profile,
                limit=self.plan.replay_steps,
                context_tokens=self.plan.context_tokens,
                fitting=self._room().context,
            )
            for workload in workloads
        )
        comparison = Comparison(
            lists={DEFAULT: None, TUNED: tuned.lists, POWERS: self._lists(self._powers(self._own_end))},
            workloads=compared,
            requested_by=tuned.requested_by,
            verdict_before=tuned.verdict,
            profile_digest=profile.digest(),
        )
        self.starter.folder.write(LISTS_FILE, Comparison, comparison)
        return comparison

    def _tuned(self, profile: CostProfile, workloads: tuple[EngineWorkload, ...]) -> TunedList:
        if self.plan.lists is not None:
            return TunedList(plain_lists(self.plan.lists), self.plan.lists_from or "given", None)
        raw = dict(self.plan.options)
        chooser = Chooser(self.engine, self.options, raw, profile, self.budget, self.trials, self.on_recommended)
        return chooser.choose(workloads)

    def _schedules(self) -> dict[str, Schedule]:
        """Workload -> what is sent in every comparing start."""
        made = {
            of.plan.name: of.schedule(self.plan.serve_s, self.longest_tokens, stream)
            for stream, of in enumerate(self.workloads)
        }
        return {name: schedule for name, schedule in made.items() if schedule is not None}
