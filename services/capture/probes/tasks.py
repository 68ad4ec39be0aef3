"""What is measured in one start of an engine, by purpose: a running engine in, fields of its record out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from services.capture.probes.base import RunningEngine
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

_EAGER_SIZES = 3
_ENOUGH_ROWS = 128  # to see all waves of attention that matter
_WORKLOAD_SIZES = 7
_FULL_KV_TOKENS, _EAGER_KV_TOKENS = 196_608, 98_304
_PRICED_SHARES = (0.5, 1.0)  # of the workload's context, at which every number of rows is read
_FULL_SHARE = 0.75  # of it, for full steps: the middle of those, where what rows cost is known best
_WAVES = range(1, 7)  # whose ends are read; after more, one row more is little of a step
_MOST_SIZES = 24  # read in the first start that probes; a size costs one to ten seconds


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
        whole = self.protocol.prompt_tokens(case) + self.protocol.long_of(case)
        return whole <= self.longest_tokens and (
            self.kv_tokens is None or self.protocol.kv_tokens(case) <= self.kv_tokens
        )


@dataclass(frozen=True, slots=True)
class CoarseSizes:
    """What the start that prices rows and KV tokens captures, and what it reads without a graph, above that.

    Captured are lower sizes only, so that one start gives both. Prices do not suffer: a quarter of the rows reaches as
    many KV tokens as the steps of a workload have. Without graphs they could not be had: a step that waits for its
    launches hides what a KV token costs. Between the first and the last nothing is captured, so that every number of
    rows runs in the same bucket, and what rows cost is not taken for a cost of buckets.
    """

    captured: tuple[int, ...]
    eager: tuple[int, ...]


def coarse_sizes(candidates: Sequence[int]) -> CoarseSizes:
    """About a quarter of the last candidate, or half of it as long as that is few rows, and the first; above them three
    sizes without graphs, or as many as there are."""
    end = candidates[-1]
    wanted = max(4, end // 4, min(end // 2, _ENOUGH_ROWS))
    largest = min(candidates, key=lambda size: abs(size - wanted))
    above = [size for size in first_probes(candidates[-1]) if size > largest and size in candidates]
    return CoarseSizes(tuple(sorted({candidates[0], largest})), tuple(above[-_EAGER_SIZES:]))


def probe_candidates(largest: int) -> tuple[int, ...]:
    """Sizes that may be probed: few enough that a start can capture them all, and every edge of a GEMM's tiles."""
    steps = {*range(1, 9), *range(12, 65, 4), *range(72, 257, 8), *range(272, largest + 1, 16), largest}
    return tuple(sorted(size for size in steps if size <= largest))


def priced_rows(bucket: int, wave_rows: int) -> tuple[int, ...]:
    """Numbers of rows of which a bucket is filled: powers of two, and both sides of half a wave and of the first waves.

    Args:
        wave_rows: see `attention_waves.wave_rows`.
    """
    edges = _wave_ends(wave_rows)
    wanted = {*_powers(bucket), *edges, *(edge + 1 for edge in edges), bucket}
    return tuple(sorted(rows for rows in wanted if rows <= bucket))


def price_steps(
    engine: RunningEngine,
    sizes: CoarseSizes,
    wave_rows: int,
    context_tokens: int,
    room: Room,
    protocol: StepProtocol,
    told: OnStep,
) -> dict[str, Any]:
    """Steps without graphs; the captured bucket filled to many degrees, at two contexts and more.

    Steps are read once each: prices are those of all of them together, and a number of rows has two readings.
    """
    eager = _full_cases(sizes.eager, max(sizes.eager), context_tokens, room, _EAGER_KV_TOKENS) if sizes.eager else []
    priced = _priced_cases(sizes.captured, wave_rows, context_tokens, room)

    def told_case(case: StepCase) -> None:
        told(f"{case.rows} rows at {case.context_tokens} tokens")

    steps = time_steps(engine, [*eager, *priced], protocol.once, told_case)
    return {"steps": steps, "failed_cases": failed_cases((*eager, *priced), steps)}


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
    """Few sizes: a coarse grid, then wherever another reading could still change the best list, up to a bound.

    A size that gives no reading is asked for once. The search ends early where the largest one gives none: nothing
    above it is known then.
    """
    open_plan = replace(plan, at_once=len(plan.candidates))
    steps: list[StepTiming] = []
    failed: list[StepCase] = []
    wanted = _first_sizes(plan)
    while wanted:
        cases = _full_cases(wanted, plan.candidates[-1], context_tokens, room)
        found = time_steps(engine, cases, protocol, lambda case: told(f"size {case.rows}"))
        steps, failed = [*steps, *found], [*failed, *failed_cases(cases, found)]
        g_ms = _bucket_ms(steps, terms)
        asked = {*g_ms, *(case.rows for case in failed)}
        known = plan.candidates[-1] in g_ms
        advised = [size for size in advise(g_ms, open_plan).probes if size not in asked] if known else []
        room_left = min(plan.at_once, min(plan.most_probes, _MOST_SIZES) - len(asked))
        wanted = _most_at_stake(advised, g_ms, plan, max(0, room_left))
    return {"steps": tuple(sorted(steps, key=lambda timing: timing.rows)), "failed_cases": tuple(failed)}


def repeated_sizes(steps: Sequence[StepTiming], plan: ProbePlan, terms: StepTerms) -> tuple[int, ...]:
    """What a later start reads: the best list so far and the ends again, and sizes that no start has read.

    Only sizes that may be chosen need a second opinion. Seconds that are left go to sizes that were not read, where
    the most is at stake when all sizes are alike: what is promised for every size rests on them.
    """
    g_ms = _bucket_ms(steps, terms)
    if plan.candidates[-1] not in g_ms:
        return tuple(sorted(g_ms))
    again = {*advise(g_ms, plan).sizes, min(g_ms), max(g_ms)}
    unread = [size for size in plan.candidates if size not in g_ms]
    alike = replace(plan, sizes=(), weights=())
    return tuple(sorted({*again, *_most_at_stake(unread, g_ms, alike, max(0, _MOST_SIZES - len(again)))}))


def _bucket_ms(steps: Sequence[StepTiming], terms: StepTerms) -> dict[int, float]:
    """size -> g: what is left of a full step without its rows and KV tokens, above zero."""
    return {t.rows: max(t.step_ms - terms.extra_ms(t.rows, t.context_tokens), 1e-3) for t in steps}


def _first_sizes(plan: ProbePlan) -> tuple[int, ...]:
    """A coarse grid, and candidates that split the workload's steps into equal parts: where an edge costs most."""
    sizes = {size for size in first_probes(plan.candidates[-1]) if size in plan.candidates}
    if plan.sizes:
        share = np.cumsum(plan.weights) / sum(plan.weights)
        at = np.searchsorted(share, np.arange(1, _WORKLOAD_SIZES + 1) / (_WORKLOAD_SIZES + 1))
        sizes |= {plan.candidates[bisect_left(plan.candidates, plan.sizes[int(i)])] for i in at}
    return tuple(sorted(sizes))


def _most_at_stake(sizes: Sequence[int], g_ms: Mapping[int, float], plan: ProbePlan, count: int) -> tuple[int, ...]:
    """The `count` sizes that would serve the most time: steps above the next smaller size read, times their length."""
    read = sorted(g_ms)
    steps, weights = plan.sizes or plan.candidates, plan.weights or (1.0,) * len(plan.candidates)
    below = [0.0, *accumulate(weights)]

    def stake(size: int) -> float:
        at = bisect_left(read, size)
        first, last = (bisect_right(steps, end) for end in (read[at - 1] if at else 0, size))
        return (below[last] - below[first]) * g_ms[read[at]]

    return tuple(sorted(sizes, key=stake, reverse=True)[:count])


def _full_cases(
    sizes: Sequence[int], largest: int, context_tokens: int, room: Room, kv_tokens: int = _FULL_KV_TOKENS
) -> list[StepCase]:
    """Full steps, at the context that fits the largest size of the start: its prompts are those of all others.

    That is less than the workload's: the steps that a bucket serves are not full, and what is taken off should be about
    what they have. Many rows have less each, so that their KV tokens stay below a bound: they take seconds to prefill,
    and the price of KV tokens is then most of the step.
    """
    most = max(BLOCK_TOKENS, int(_FULL_SHARE * context_tokens) // BLOCK_TOKENS * BLOCK_TOKENS)
    context_tokens = room.context(largest, min(most, _at_most(largest, kv_tokens)))
    wanted = {size: max(context_tokens, min(most, _at_most(size, kv_tokens))) for size in sizes}
    return [StepCase(size, room.context(size, tokens)) for size, tokens in wanted.items()]


def _at_most(rows: int, kv_tokens: int = _FULL_KV_TOKENS) -> int:
    """Context, in whole blocks, with which that many rows stay below a bound of KV tokens."""
    return max(1, kv_tokens // rows // BLOCK_TOKENS) * BLOCK_TOKENS


def _powers(bucket: int) -> list[int]:
    """Powers of two from 2 to `bucket`."""
    return [1 << k for k in range(1, bucket.bit_length())]


def _wave_ends(wave_rows: int) -> list[int]:
    """Rows of half a wave and of the first waves, as far as they are several."""
    return [edge for edge in (wave_rows // 2, *(k * wave_rows for k in _WAVES)) if edge > 1]


def _priced_cases(captured: Sequence[int], wave_rows: int, context_tokens: int, room: Room) -> list[StepCase]:
    """The last bucket filled to every degree at half and whole the context of the workload; the first one at one.

    Contexts tell KV tokens from rows. Numbers of rows that sizes are made of are also read at the context of full
    steps: what such a step has beyond that is its bucket's.
    """
    first, bucket = captured[0], captured[-1]
    cases = [StepCase(first, room.context(first, context_tokens))]
    likely_sizes = {*_powers(bucket), *_wave_ends(wave_rows), bucket}
    context_tokens = max(context_tokens, 2 * room.protocol.least_context(bucket))  # half of it can still be read
    for rows in priced_rows(bucket, wave_rows):
        shares = (*_PRICED_SHARES, *([_FULL_SHARE] if rows in likely_sizes else []))
        contexts = (min(int(share * context_tokens), _at_most(rows)) for share in shares)
        cases += [StepCase(rows, room.context(rows, wanted)) for wanted in contexts]
    return list(dict.fromkeys(cases))
