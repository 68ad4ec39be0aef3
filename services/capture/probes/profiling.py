"""Profiling: the starts that make an engine's cost profile, on the sizes that the engine can capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from services.capture.probes import tasks
from services.capture.probes.attention_waves import wave_rows
from services.capture.probes.base import RunningEngine
from services.capture.probes.claims import Claim, Purpose
from services.capture.probes.engine_profile import build_engine_profile, terms_of
from services.capture.probes.failures import EngineFailed
from services.capture.probes.prompt_time import (
    PromptPlan,
    captured_prompts,
    mixed_family,
    mixed_sizes,
    time_prompts,
    uncaptured_prompts,
)
from services.capture.probes.records import ExperimentPlan, Folder, StartRecord
from services.capture.probes.starting import Starter
from services.capture.probes.workload import EngineWorkload
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine
from tuner.ladders import powers_of_two
from tuner.probe_plan import ProbePlan
from tuner.profile_file import dump_profile, parse_profile
from tuner.traffic import observe
from workloads.models.config import ModelConfig

PROFILE_FILE = "profile.json"

RoomyTask = Callable[[RunningEngine, tasks.Room, tasks.OnStep], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Profiling:
    """What the starts have in common; see `services.capture.probes.experiment.Experiment` for the fields.

    Attributes:
        starts: that read sizes, all told.
    """

    plan: ExperimentPlan
    starts: int
    starter: Starter
    engine: Engine
    options: Any
    model: ModelConfig
    longest_tokens: int
    workloads: tuple[EngineWorkload, ...]

    @property
    def folder(self) -> Folder:
        return self.starter.folder

    @property
    def own_end(self) -> int:
        """The end of the engine's own list, or of its decode steps where it makes none."""
        own = self.engine.default_lists(self.options)[self.engine.list_names[0]]
        return max(own, default=self.engine.allowed(self.options).reachable)

    @property
    def candidates(self) -> tuple[int, ...]:
        """Sizes that may be profiled: what the engine captures as asked, up to the end of its own list."""
        allowed = self.engine.allowed(self.options)
        top = min(allowed.reachable, self.own_end, allowed.largest)
        top = top // allowed.multiple_of * allowed.multiple_of
        return tuple(size for size in tasks.probe_candidates(top) if size % allowed.multiple_of == 0)

    def powers(self) -> tuple[int, ...]:
        """Powers of two as far as the engine's own list goes."""
        return powers_of_two(replace(self.engine.allowed(self.options), largest=self.own_end))

    def lists(self, sizes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        return {self.engine.list_names[0]: tuple(int(size) for size in sizes)}

    def room(self) -> tasks.Room:
        """By the least KV cache that any start reported."""
        known = [record.kv_tokens for record in self.folder.starts() if record.kv_tokens]
        return tasks.Room(self.longest_tokens, min(known, default=None), self.plan.protocol)

    def with_kv_cache(self) -> tuple[EngineWorkload, ...]:
        """The workloads with the KV cache that the engine reported, where nobody gave one."""
        known = self.room().kv_tokens
        return tuple(
            replace(of, serving=replace(of.serving, kv_tokens=of.serving.kv_tokens or known)) for of in self.workloads
        )

    def left(self) -> tuple[Purpose, ...]:
        """Starts that are still to be done, in order."""
        wanted: dict[Purpose, int] = {"steps": 1, "profile": self.starts}
        done = Counter(record.purpose for record in self.folder.starts() if record.failure is None)
        return tuple(purpose for purpose, count in wanted.items() for _ in range(count - done[purpose]))

    def free(self, running: Sequence[Claim]) -> Purpose | None:
        """The first start that is left and that nobody runs; None while there is none, or what it needs is measured."""
        if any(claim.purpose == "steps" for claim in running):
            return None
        left = list(self.left())
        for claim in running:
            if claim.purpose in left:
                left.remove(claim.purpose)
        return left[0] if left else None

    def measure(self, claim: Claim, told: tasks.OnStep) -> StartRecord:
        """One start, recorded.

        Raises:
            EngineFailed: it failed, as the next one would.
        """
        sizes, task = self._task(claim.purpose)
        prompts = self._prompts(claim.purpose, sizes)

        def work(engine: RunningEngine) -> Mapping[str, Any]:
            room = tasks.Room(self.longest_tokens, engine.observe().kv_tokens, self.plan.protocol)
            return {**task(engine, room, told), "prefill": time_prompts(engine, prompts, told)}

        record = self.starter.run(claim, self.lists(sizes), work)
        if record.failure is not None:
            raise EngineFailed(record.failure)
        return record

    def profile(self) -> CostProfile:
        """As it stands in the folder; built from its starts the first time, and whenever there are more."""
        stored = self.folder.path / PROFILE_FILE
        found = parse_profile(stored.read_bytes(), file=str(stored)) if stored.is_file() else None
        done = sum(record.purpose == "profile" and record.failure is None for record in self.folder.starts())
        if found is not None and (found.starts or 0) >= done:
            return found
        self.folder.write_text(PROFILE_FILE, dump_profile(self._built()))
        return parse_profile(stored.read_bytes(), file=str(stored))

    def _built(self) -> CostProfile:
        return build_engine_profile(
            self.folder.starts(),
            engine=self.engine,
            model=self.model,
            dummy_weights=self.plan.dummy_weights,
            context_tokens=self.plan.context_tokens,
            protocol=self.plan.protocol,
            command=self.plan.command,
        )

    def _task(self, purpose: Purpose) -> tuple[tuple[int, ...], RoomyTask]:
        """What is captured, and what is read."""
        if purpose == "steps":
            coarse = tasks.coarse_sizes(self.candidates)
            return coarse.captured, partial(self._priced, coarse)
        plan, terms = self._probe_plan(), terms_of(self.folder.starts(), self.engine)
        read = [timing for start in self.folder.starts() if start.purpose == "profile" for timing in start.steps]
        if not read:
            return self._captured, partial(self._probed, plan)
        return self._captured, partial(self._timed, tasks.repeated_sizes(read, plan, terms))

    def _prompts(self, purpose: Purpose, captured: tuple[int, ...]) -> PromptPlan:
        """What is read after that: by then it cannot evict the prompts of steps."""
        mixed = self._mixed_sizes
        if purpose == "steps":
            return uncaptured_prompts(mixed, captured[-1], self.longest_tokens)
        return captured_prompts(mixed)

    @property
    def _captured(self) -> tuple[int, ...]:
        """What the starts that read sizes capture: every candidate, and the end of the engine's own list where mixed
        steps go on above decode steps."""
        mixed = self._mixed_sizes
        return tuple(sorted({*self.candidates, *mixed[-1:]}))

    @property
    def _mixed_sizes(self) -> tuple[int, ...]:
        """Sizes whose mixed steps are read; none where these have no graphs of their own beside those of decode."""
        name, wanted = mixed_family(self.engine), tuple(sorted({*self.candidates, self.own_end}))
        captured = self.engine.effective(self.lists(wanted), self.options).families
        if name is None or not {name, self.engine.decode_family} <= set(captured):
            return ()
        chunk = self.engine.limits(self.options).chunked_prefill_tokens
        most = self.longest_tokens - 1  # and one token of output
        return mixed_sizes(captured[name], most if chunk is None else min(chunk, most))

    def _probe_plan(self) -> ProbePlan:
        """Probes aim at the steps that the workloads make, all alike, as far as the coarse profile can tell."""
        candidates, coarse = self.candidates, self._built()
        weights: Counter[int] = Counter()
        for workload in self.with_kv_cache():
            seen = observe(workload.fit_part, self.engine, self.options, coarse, workload.serving).decode
            share = seen.steps / seen.steps.sum()
            weights.update(dict(zip(seen.sizes.tolist(), share.tolist(), strict=True)))
        within = sorted((size, weight) for size, weight in weights.items() if size <= candidates[-1])
        return ProbePlan(candidates, tuple(size for size, _ in within), tuple(weight for _, weight in within))

    def _priced(
        self, coarse: tasks.CoarseSizes, engine: RunningEngine, room: tasks.Room, told: tasks.OnStep
    ) -> Mapping[str, Any]:
        wave = wave_rows(self.starter.probe.device().name, self.model.kv_heads)
        return tasks.price_steps(engine, coarse, wave, self.plan.context_tokens, room, self.plan.protocol, told)

    def _timed(
        self, sizes: tuple[int, ...], engine: RunningEngine, room: tasks.Room, told: tasks.OnStep
    ) -> Mapping[str, Any]:
        return tasks.time_sizes(engine, sizes, self.plan.context_tokens, room, self.plan.protocol, told)

    def _probed(
        self, plan: ProbePlan, engine: RunningEngine, room: tasks.Room, told: tasks.OnStep
    ) -> Mapping[str, Any]:
        terms = terms_of(self.folder.starts(), self.engine)
        return tasks.probe_sizes(engine, plan, terms, self.plan.context_tokens, room, self.plan.protocol, told)
