"""The whole way inside one engine: profile it, choose a list on the first part of the traffic, compare on the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from services.capture.probes import tasks
from services.capture.probes.base import RunningEngine
from services.capture.probes.claims import Claim, Purpose
from services.capture.probes.compare_task import LOG_SETTLES_S, compare_list
from services.capture.probes.order import StartDone, StartEnd, fairest, left_to_do, turns
from services.capture.probes.profiling import Profiling
from services.capture.probes.records import Comparison, ExperimentPlan, StartRecord, plain_lists
from services.capture.probes.replayed_steps import compared_workload
from services.capture.probes.serving import Schedule
from services.capture.probes.starting import Starter
from services.capture.probes.time_limit import TimeLimit
from services.capture.probes.tuned_list import Chooser, TunedList
from services.capture.probes.workload import EngineWorkload
from tuner.budget import Budget
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine
from tuner.recommendation import Recommendation
from workloads.models.config import ModelConfig

DEFAULT, TUNED, POWERS = "default", "tuned", "powers of two"
LISTS_FILE = "lists.json"
_ELSEWHERE_S = 1.0  # between two looks at what another command measures

OnProgress = Callable[[int, str], None]
"""Told how many starts are recorded, and in a few words what is done now. Called while requests are timed: be quick."""

Free = Callable[[Sequence[Claim], str | None], tuple[Purpose, str] | None]
"""What may be started, and its name, while others are running, on the GPU of that identity; None: nothing."""


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
class _Wanted:
    """Starts by list, and how many were recorded when the command began: what failed before may have been mended."""

    starts: Mapping[str, int]
    since: int


@dataclass(frozen=True, slots=True)
class Experiment:
    """One folder's question, and what is needed to answer it.

    Attributes:
        options: of the engine, as its rules read them.
        workloads: in the order of the plan.
        starts: of the default and of the tuned list; powers of two are started once.
        profile_starts: that read sizes.
        log_settles_s: how long the engine takes to log what it counted.
        limit: no start begins that would end later.
        told: progress.
        say: told in a sentence what the figures to come will not show; before the starts that make them.
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
    profile_starts: int
    trials: int = 12
    log_settles_s: float = LOG_SETTLES_S
    limit: TimeLimit = field(default_factory=TimeLimit)
    told: OnProgress = field(default=lambda done, now: None)
    say: Callable[[str], None] = field(default=lambda sentence: None)
    on_start: Callable[[StartRecord], None] = field(default=lambda record: None)
    on_recommended: Callable[[Recommendation], None] = field(default=lambda found: None)

    def run(self) -> Outcome:
        """Everything that is still to be done in the time; the folder then holds what a report is made of.

        Raises:
            EngineFailed, MeasurementFailed: the engine could not be profiled.
            BadInput: the traffic does not fit the engine.
        """
        wanted = _Wanted({DEFAULT: self.starts, TUNED: self.starts, POWERS: 1}, len(self.starter.folder.starts()))
        schedules = self._schedules()  # before any start: requests that cannot be sent are bad input
        profiling = self._profiling
        while unprofiled := profiling.left():
            if not self._in_time(unprofiled[0]):
                return Outcome(None, None, (*unprofiled, *turns(wanted.starts)))
            with self._claimed(lambda running, gpu: _named(profiling.free(running))) as claim:
                if claim is None:
                    time.sleep(_ELSEWHERE_S)
                else:
                    self.on_start(profiling.measure(claim, self._telling(f"profiling ({claim.purpose})")))
        with self.starter.folder.deciding():
            profile = profiling.profile()
            comparison = self._comparison(profile)
        for note in filter(None, (of.overload_note for of in comparison.workloads)):
            self.say(note)
        while left := self._left(wanted):
            if not self._in_time("compare", self.plan.serve_s * len(schedules)):
                break
            with self._claimed(partial(self._free, wanted)) as claim:
                if claim is None:  # what is left runs elsewhere
                    break
                told = self._telling(f"{claim.name}, {len(left)} starts left")
                task = partial(self._compared, comparison, schedules, told)
                self.on_start(self.starter.run(claim, comparison.lists[claim.name], task))
        return Outcome(profile, comparison, self._left(wanted))

    @property
    def _profiling(self) -> Profiling:
        return Profiling(
            self.plan,
            self.profile_starts,
            self.starter,
            self.engine,
            self.options,
            self.model,
            self.longest_tokens,
            self.workloads,
        )

    @contextmanager
    def _claimed(self, free: Free) -> Iterator[Claim | None]:
        """The start that `free` finds while others are running; nobody else takes it. None where it finds none."""
        folder, gpu = self.starter.folder, self.starter.probe.device().gpu
        with folder.deciding():
            due = free(folder.claims(), gpu)
            held = None if due is None else folder.claim(*due, gpu)
        try:
            yield None if held is None else held.claim
        finally:
            if held is not None:
                held.release()

    def _left(self, wanted: _Wanted, running: Sequence[Claim] = ()) -> tuple[str, ...]:
        """Comparing starts that are neither recorded nor running."""
        records = self._records("compare")
        numbers = {record.number for record in records}
        done = [StartDone(record.name, _end_of(record), record.number > wanted.since) for record in records]
        done += [
            StartDone(claim.name, "measured")
            for claim in running
            if claim.purpose == "compare" and claim.number not in numbers
        ]
        return left_to_do(wanted.starts, done)

    def _free(self, wanted: _Wanted, running: Sequence[Claim], gpu: str | None) -> tuple[Purpose, str] | None:
        left = self._left(wanted, running)
        if not left:
            return None
        return "compare", fairest(left, [record.name for record in self._records("compare") if record.gpu == gpu])

    def _records(self, purpose: Purpose) -> list[StartRecord]:
        return [record for record in self.starter.folder.starts() if record.purpose == purpose]

    def _in_time(self, purpose: Purpose, least_s: float = 0.0) -> bool:
        return self.limit.admits(purpose, self.starter.folder.starts(), least_s)

    def _telling(self, where: str) -> tasks.OnStep:
        """Progress of the start that begins now."""
        done = len(self.starter.folder.starts())
        self.told(done, f"{where}: starting")
        return lambda what: self.told(done, f"{where}: {what}")

    def _compared(
        self, comparison: Comparison, schedules: Mapping[str, Schedule], told: tasks.OnStep, engine: RunningEngine
    ) -> Mapping[str, Any]:
        name, protocol = self.engine.name, self.plan.protocol
        largest = largest_captured(comparison, self.engine, self.options)
        return compare_list(engine, name, comparison.cases, schedules, protocol, told, self.log_settles_s, largest)

    def _comparison(self, profile: CostProfile) -> Comparison:
        """Lists and steps, fixed before the first comparing start."""
        stored = self.starter.folder.read(LISTS_FILE, Comparison)
        if stored is not None:
            return stored
        profiling = self._profiling
        workloads = profiling.with_kv_cache()
        tuned = self._tuned(profile, workloads)
        compared = tuple(
            compared_workload(
                workload,
                self.engine,
                self.options,
                profile,
                limit=self.plan.replay_steps,
                context_tokens=self.plan.context_tokens,
                fitting=profiling.room().context,
            )
            for workload in workloads
        )
        comparison = Comparison(
            lists={DEFAULT: None, TUNED: tuned.lists, POWERS: profiling.lists(profiling.powers())},
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


def largest_captured(comparison: Comparison, engine: Engine, options: Any) -> int:
    """Most tokens of a step that has a graph under any list; 0 where the list is for decode steps alone."""
    name = engine.list_names[0]
    if len(engine.list_families[name]) < 2:
        return 0
    lists = (engine.default_lists(options) if asked is None else asked for asked in comparison.lists.values())
    return max((size for of in lists for size in of.get(name, ())), default=0)


def _named(purpose: Purpose | None) -> tuple[Purpose, str] | None:
    """A start of the profile is named by what it is for."""
    return None if purpose is None else (purpose, purpose)


def _end_of(record: StartRecord) -> StartEnd:
    if record.failure is None:
        return "measured"
    return "refused" if record.failure.kind == "refused" else "failed"
