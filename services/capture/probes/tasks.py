"""What is measured in one start of an engine, by purpose: a running engine in, fields of its record out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.capture.probes.base import Batch, RunningEngine
from services.capture.probes.records import PrefillTiming
from services.capture.probes.step_terms import StepTerms
from services.capture.probes.step_time import (
    BLOCK_TOKENS,
    StepCase,
    StepProtocol,
    StepTiming,
    failed_cases,
    time_steps,
)
from tuner.probe_plan import ProbePlan, first_probes
from tuner.probing import advise

OnStep = Callable[[str], None]
"""Told in a few words what was just measured."""

_EAGER_SIZES = 4
_PREFILL_READINGS = 3
_PREFILL_SEED = 900_000_000


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


@dataclass(frozen=True, slots=True)
class CoarseSizes:
    """What the start that prices rows and KV tokens captures, and what it reads without a graph, above that.

    Captured are the lower sizes only, so that one start gives both. Prices do not suffer: up to a quarter of the end,
    a few long contexts fill the whole KV cache, which is as far as a price of KV tokens has to reach, and small and
    large buckets are there. Without graphs nothing could be priced: a step that waits for its launches hides what a KV
    token costs.
    """

    captured: tuple[int, ...]
    eager: tuple[int, ...]


def coarse_sizes(candidates: Sequence[int], powers: Sequence[int]) -> CoarseSizes:
    """A quarter of the way to the last candidate in graphs, four sizes (fewer where there are fewer) above it.

    Args:
        powers: of two, as far as the engine captures them.
    """
    captured = tuple(size for size in powers if size <= max(candidates[-1] // 4, powers[0] + 1, 4))
    above = [size for size in first_probes(candidates[-1]) if size > captured[-1] and size in candidates]
    return CoarseSizes(captured, tuple(above[-_EAGER_SIZES:]))


def price_steps(
    engine: RunningEngine, sizes: CoarseSizes, context_tokens: int, room: Room, protocol: StepProtocol, told: OnStep
) -> dict[str, Any]:
    """Steps without graphs; two buckets at three contexts and two fills, a few others full; prefill by token count."""
    eager = [StepCase(size, room.context(size, context_tokens)) for size in sizes.eager]
    priced = _priced_cases(sizes.captured, context_tokens, room)
    quick = replace(protocol, repeats=min(protocol.repeats, protocol.least_repeats))

    def told_case(case: StepCase) -> None:
        told(f"{case.rows} rows at {case.context_tokens} tokens")

    # The larger ones first: the smaller ones then find their prompts computed.
    steps = time_steps(engine, eager, quick, told_case) + time_steps(engine, priced, protocol, told_case)
    tokens = [1 << k for k in range(7, 15) if 1 << k < room.longest_tokens]
    prefill = tuple(_prefill(engine, n, told) for n in tokens)
    return {"steps": steps, "failed_cases": failed_cases((*eager, *priced), steps), "prefill": prefill}


def time_sizes(
    engine: RunningEngine, sizes: Sequence[int], context_tokens: int, room: Room, protocol: StepProtocol, told: OnStep
) -> dict[str, Any]:
    """Full steps of every size."""
    cases = _full_cases(sizes, max(sizes), context_tokens, room)
    steps = time_steps(engine, cases, protocol, lambda case: told(f"size {case.rows}"))
    return {"steps": steps, "failed_cases": failed_cases(cases, steps)}


def probe_sizes(
    engine: RunningEngine,
    plan: ProbePlan,
    terms: StepTerms,
    context_tokens: int,
    room: Room,
    protocol: StepProtocol,
    told: OnStep,
) -> dict[str, Any]:
    """Few sizes: a coarse grid, then wherever another reading could still change the best list.

    A size that gives no reading is asked for once. The search ends early where the largest one gives none: nothing
    above it is known then.
    """
    steps: list[StepTiming] = []
    failed: list[StepCase] = []
    wanted = tuple(size for size in first_probes(plan.candidates[-1]) if size in plan.candidates)
    while wanted:
        cases = _full_cases(wanted, plan.candidates[-1], context_tokens, room)
        found = time_steps(engine, cases, protocol, lambda case: told(f"size {case.rows}"))
        steps, failed = [*steps, *found], [*failed, *failed_cases(cases, found)]
        g_ms = {t.rows: max(t.step_ms - terms.extra_ms(t.rows, t.context_tokens), 1e-3) for t in steps}
        asked = {*g_ms, *(case.rows for case in failed)}
        known = plan.candidates[-1] in g_ms
        wanted = tuple(size for size in advise(g_ms, plan).probes if size not in asked) if known else ()
    return {"steps": tuple(sorted(steps, key=lambda timing: timing.rows)), "failed_cases": tuple(failed)}


def _prefill(engine: RunningEngine, tokens: int, told: OnStep) -> PrefillTiming:
    """A prompt that was never seen before, and one token of output."""
    seeds = (_PREFILL_SEED + 10 * tokens + i for i in range(_PREFILL_READINGS + 1))
    _, *readings_s = [engine.batch_s(Batch(1, tokens, 1, seed)) for seed in seeds]
    told(f"prefill of {tokens} tokens")
    return PrefillTiming(tokens, tuple(seconds * 1e3 for seconds in readings_s))


def _full_cases(sizes: Sequence[int], largest: int, context_tokens: int, room: Room) -> list[StepCase]:
    """Full steps, all at the context that fits the largest size of the start: its prompts are those of all others."""
    context_tokens = room.context(largest, context_tokens)
    return [StepCase(size, room.context(size, context_tokens)) for size in sizes]


def _priced_cases(buckets: Sequence[int], context_tokens: int, room: Room) -> list[StepCase]:
    """The largest bucket and one an eighth of it, full and little more than the bucket below, at three contexts; and
    full steps of buckets in between, for a first idea of the curve."""
    cases = []
    largest = max(buckets)
    for bucket in dict.fromkeys((largest, min(buckets, key=lambda size: abs(size - max(2, largest // 8))))):
        below = max((size for size in buckets if size < bucket), default=0)
        for rows in dict.fromkeys((bucket, below + max(1, (bucket - below) // 8))):
            for wanted in (context_tokens // 2, context_tokens, 2 * context_tokens):
                cases.append(StepCase(rows, room.context(rows, wanted)))
    cases += [StepCase(bucket, room.context(bucket, context_tokens)) for bucket in buckets[::2]]
    return list(dict.fromkeys(cases))
