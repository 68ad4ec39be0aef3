"""What is measured in one start of an engine, by purpose: a running engine in, fields of its record out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.capture.probes.base import Batch, RunningEngine
from services.capture.probes.census import census_of
from services.capture.probes.records import PrefillTiming, ReplayedStep
from services.capture.probes.serving import Schedule, summarise
from services.capture.probes.step_terms import StepTerms
from services.capture.probes.step_time import BLOCK_TOKENS, StepCase, StepProtocol, StepTiming, time_steps
from tuner.probe_plan import ProbePlan, first_probes
from tuner.probing import advise

OnStep = Callable[[str], None]
"""Told in a few words what was just measured."""

_PREFILL_READINGS = 3
_PREFILL_SEED = 900_000_000
_WARM_UP = Batch(rows=4, prompt_tokens=64, output_tokens=16, seed=800_000_000)
_LOG_SETTLES_S = 1.5  # engines log a table of graphs once a second here


@dataclass(frozen=True, slots=True)
class Room:
    """What fits into the engine: tokens of one request, and of all that run.

    A batch that does not fit is preempted, and one that just fits loses its prompts between two runs: what it
    generates enters the prefix cache too. vLLM (0.23.0 `v1/core/block_pool.py`) takes new blocks from the front of a
    queue of free ones, to whose end it puts the blocks of every request that ends, generated ones before prompts. So
    when a run begins, prompts are preceded by what the run before did not need: the cache without the prompts and
    without what that run generated. A run that generates no more than that evicts no prompt. A case needs its prompts
    once and its outputs twice, whatever share of the cache that is.
    """

    longest_tokens: int
    kv_tokens: int | None
    protocol: StepProtocol = field(default_factory=StepProtocol)

    def context(self, rows: int, wanted: int) -> int:
        """The wanted context, or as much of it as fits for that many rows, in whole blocks then; never less than the
        context of prompts of one token."""
        if self._fits(rows, wanted):
            return max(self.protocol.least_context(rows), wanted)
        least = self.protocol.least_context(rows)
        fitting = (n for n in range(wanted - wanted % BLOCK_TOKENS, least, -BLOCK_TOKENS) if self._fits(rows, n))
        return next(fitting, least)

    def _fits(self, rows: int, context_tokens: int) -> bool:
        case = StepCase(rows, context_tokens)
        whole = self.protocol.prompt_tokens(case) + self.protocol.short_of(case) + self.protocol.steps
        return whole <= self.longest_tokens and (
            self.kv_tokens is None or self.protocol.kv_tokens(case) <= self.kv_tokens
        )


def price_steps(
    engine: RunningEngine, buckets: Sequence[int], context_tokens: int, room: Room, protocol: StepProtocol, told: OnStep
) -> dict[str, Any]:
    """Every bucket full, three buckets at three contexts and two fills, and prefill by token count."""
    cases = [StepCase(bucket, room.context(bucket, context_tokens)) for bucket in buckets]
    for bucket in _spread(buckets):
        below = max((size for size in buckets if size < bucket), default=0)
        for rows in dict.fromkeys((bucket, below + max(1, (bucket - below) // 8))):
            for wanted in (context_tokens // 2, context_tokens, 2 * context_tokens):
                cases.append(StepCase(rows, room.context(rows, wanted)))
    steps = time_steps(engine, cases, protocol, lambda case: told(f"{case.rows} rows at {case.context_tokens} tokens"))
    tokens = [1 << k for k in range(7, 15) if 1 << k < room.longest_tokens]
    return {"steps": steps, "prefill": tuple(_prefill(engine, n, told) for n in tokens)}


def time_sizes(
    engine: RunningEngine, sizes: Sequence[int], context_tokens: int, room: Room, protocol: StepProtocol, told: OnStep
) -> dict[str, Any]:
    """Full steps of every size."""
    cases = [StepCase(size, room.context(size, context_tokens)) for size in sizes]
    return {"steps": time_steps(engine, cases, protocol, lambda case: told(f"size {case.rows}"))}


def probe_sizes(
    engine: RunningEngine,
    plan: ProbePlan,
    terms: StepTerms,
    context_tokens: int,
    room: Room,
    protocol: StepProtocol,
    told: OnStep,
) -> dict[str, Any]:
    """Few sizes: a coarse grid, then wherever another reading could still change the best list."""
    steps: list[StepTiming] = []
    wanted = tuple(size for size in first_probes(plan.candidates[-1]) if size in plan.candidates)
    while wanted:
        steps += time_sizes(engine, wanted, context_tokens, room, protocol, told)["steps"]
        g_ms = {t.rows: max(t.step_ms - terms.extra_ms(t.rows, t.context_tokens), 1e-3) for t in steps}
        wanted = tuple(size for size in advise(g_ms, plan).probes if size not in g_ms)
    return {"steps": tuple(sorted(steps, key=lambda timing: timing.rows))}


def compare_list(
    engine: RunningEngine,
    engine_name: str,
    steps: Sequence[ReplayedStep],
    schedule: Schedule | None,
    protocol: StepProtocol,
    told: OnStep,
    log_settles_s: float = _LOG_SETTLES_S,
) -> dict[str, Any]:
    """The recorded step sizes, then the recorded requests at their times."""
    fields: dict[str, Any] = {}
    if schedule is not None:  # first: the cache holds no prompt of ours yet
        requests = schedule.requests
        engine.batch_s(_WARM_UP)  # what an engine does once, at its first request, is no user's time to first token
        begin = engine.log.stat().st_size
        timings = engine.serve(requests, lambda done: told(f"{done} of {len(requests)} requests"))
        time.sleep(log_settles_s)
        census = census_of(engine.log, begin, engine_name)
        fields = {"served": summarise(timings), "census": census, "clipped_requests": schedule.clipped}
    cases = [StepCase(step.rows, step.context_tokens) for step in steps]
    timed = time_steps(engine, cases, protocol, lambda case: told(f"replay of {case.rows} rows"))
    return fields | {"steps": timed}


def _prefill(engine: RunningEngine, tokens: int, told: OnStep) -> PrefillTiming:
    """A prompt that was never seen before, and one token of output."""
    seeds = (_PREFILL_SEED + 10 * tokens + i for i in range(_PREFILL_READINGS + 1))
    _, *readings_s = [engine.batch_s(Batch(1, tokens, 1, seed)) for seed in seeds]
    told(f"prefill of {tokens} tokens")
    return PrefillTiming(tokens, tuple(seconds * 1e3 for seconds in readings_s))


def _spread(buckets: Sequence[int]) -> list[int]:
    """The largest bucket and those nearest to a quarter and a sixteenth of it: enough that the next one is far."""
    largest = max(buckets)
    return list(dict.fromkeys(min(buckets, key=lambda size: abs(size - largest / part)) for part in (1, 4, 16)))
