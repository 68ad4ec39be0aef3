"""Step time by size, through an engine's public interface only.

n equal requests run twice, once for few output tokens and once for many; what the second run takes longer, divided by
the steps that it has more, is one step of n. Three things would spoil that difference, and the protocol keeps each out:

- *Prefill.* Prompts repeat, so an engine with a prefix cache hardly computes them; but a KV cache holds fewer tokens
  than all cases together, and one run that finds its prompts evicted pays seconds that the other does not. So row i has
  the same prompt in every case, a shorter one is the beginning of a longer one, cases go from the most rows to the
  fewest (each finds its prompts in the one before), and all readings of a case follow an untimed run that computes what
  is missing. `Room` (in `tasks`) says how long prompts may be so that nothing is evicted between these runs.
- *The last block.* Caches hold whole blocks and never the last token of a prompt. Prompts are one token longer than
  whole blocks, so that one token a row is computed again instead of up to sixteen.
- *Arrival.* Requests of one post reach the scheduler over several steps. As long as the first row has not ended when
  the last one comes, both runs grow and shrink in the same way, and what they differ by is full steps of n. So the
  short run is at least as many tokens long as arrival takes steps (`arrivals_per_step`).

What is left is the jitter of the client, in milliseconds a run, and whether the last request still catches a step,
which is up to a step a run. With 2 ms of jitter a start reads a size to 0.4 % (standard deviation, computed).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from services.capture.probes.base import Batch, RunningEngine

BLOCK_TOKENS = 16  # of a prefix cache; vLLM's default. Where it differs, a few tokens more are computed again
_FILL_TOKENS = 2  # the first computes prompts that the cache lacks; what an engine does once to decode is in the second
_FEW_CASES = 24
_MEDIAN_FACTOR = 1.25  # a median scatters this much more than a mean, from three readings on


@dataclass(frozen=True, slots=True)
class StepCase:
    """A decode step of `rows` requests that each attend to about `context_tokens`, the middle of the timed stretch."""

    rows: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class StepTiming:
    """Readings of one case in one start, in milliseconds, in the order they were taken."""

    rows: int
    context_tokens: int
    readings_ms: tuple[float, ...]

    @property
    def step_ms(self) -> float:
        return statistics.median(self.readings_ms)


@dataclass(frozen=True, slots=True)
class StepProtocol:
    """How steps are timed.

    Attributes:
        short_tokens, long_tokens: output lengths of the two runs. Where arrival takes longer, both grow alike.
        wide_rows, wide_steps: beyond that many rows so few steps are timed, or fewer. They take long, and the jitter of
            a run does not grow with them.
        repeats: pairs of runs of every case, at most.
        least_repeats: pairs after which a case may be done.
        target_share: a case is done once the standard error of its median is below this share of it.
        arrivals_per_step: requests that reach the scheduler while one step runs, at least. A server hands over about
            three in a millisecond (0.3 ms each), and no model worth tuning for steps faster than in 5 ms; taking all
            steps of the arrival to be that short leaves a factor of two at 512 rows, where they grow to 10 ms and more.
        seed: of the order of the two runs.
    """

    short_tokens: int = 7
    long_tokens: int = 87
    repeats: int = 3
    least_repeats: int = 2
    target_share: float = 0.0075
    arrivals_per_step: int = 16
    wide_rows: int = 128
    wide_steps: int = 48
    seed: int = 0

    @property
    def once(self) -> StepProtocol:
        """One reading a case: where the mean over many cases and several starts is asked for, scatter averages out."""
        return replace(self, repeats=1)

    def of_replay(self, cases: int) -> StepProtocol:
        """Of few cases each weighs much, and one reading that is far off moves the mean of a start: read as a profile
        reads them. Of many, once is enough."""
        return self if cases <= _FEW_CASES else self.once

    def steps(self, rows: int) -> int:
        """By how many steps the two runs differ."""
        steps = self.long_tokens - self.short_tokens
        return steps if rows <= self.wide_rows else min(steps, self.wide_steps)

    def short_of(self, case: StepCase) -> int:
        """Output tokens of the short run: no fewer than arrival takes steps, and such that the prompt ends one token
        after a whole block."""
        least, half = self._least_tokens(case.rows), self.steps(case.rows) // 2
        return least + (case.context_tokens - half - least - 1) % BLOCK_TOKENS

    def long_of(self, case: StepCase) -> int:
        """Output tokens of the long run."""
        return self.short_of(case) + self.steps(case.rows)

    def prompt_tokens(self, case: StepCase) -> int:
        """So long that the steps which make the difference are at the wanted context on average."""
        return max(1, case.context_tokens - self.short_of(case) - self.steps(case.rows) // 2)

    def least_context(self, rows: int) -> int:
        """The shortest context at which that many rows can be timed: that of prompts of one token."""
        return 1 + self._least_tokens(rows) + self.steps(rows) // 2

    def kv_tokens(self, case: StepCase) -> int:
        """Tokens of KV cache without which prompts of this case are evicted between its runs; see `tasks.Room`."""
        output_tokens = self.long_of(case) + 2 * BLOCK_TOKENS  # and a block begun at either end
        return case.rows * (self.prompt_tokens(case) + BLOCK_TOKENS + 2 * output_tokens)

    def _least_tokens(self, rows: int) -> int:
        return max(self.short_tokens, math.ceil(rows / self.arrivals_per_step))


def time_steps(
    engine: RunningEngine,
    cases: Sequence[StepCase],
    protocol: StepProtocol,
    on_reading: Callable[[StepCase], None] = lambda case: None,
) -> tuple[StepTiming, ...]:
    """Readings of every case, in the order of `cases`; they are taken from the most rows to the fewest.

    A reading that is not above zero (the difference of two times on a machine that was busy) is left out; a case
    without any reading is left out, and named by `failed_cases`.

    Raises:
        EngineFailed: see `RunningEngine.batch_s`.
    """
    order, found = random.Random(protocol.seed), dict[StepCase, tuple[float, ...]]()
    for case in sorted(set(cases), key=lambda case: (case.rows, case.context_tokens), reverse=True):
        found[case] = _readings_ms(engine, case, protocol, order, on_reading)
    return tuple(
        StepTiming(case.rows, case.context_tokens, found[case]) for case in dict.fromkeys(cases) if found[case]
    )


def failed_cases(cases: Sequence[StepCase], timings: Sequence[StepTiming]) -> tuple[StepCase, ...]:
    """Cases that `time_steps` was asked for and got no reading of, in their order."""
    read = medians_ms(timings)
    return tuple(case for case in dict.fromkeys(cases) if case not in read)


def medians_ms(timings: Sequence[StepTiming]) -> Mapping[StepCase, float]:
    return {StepCase(timing.rows, timing.context_tokens): timing.step_ms for timing in timings}


def _readings_ms(
    engine: RunningEngine,
    case: StepCase,
    protocol: StepProtocol,
    order: random.Random,
    on_reading: Callable[[StepCase], None],
) -> tuple[float, ...]:
    engine.batch_s(_batch(case, protocol, _FILL_TOKENS))
    readings_ms: list[float] = []
    for _ in range(protocol.repeats):
        reading_ms = _reading_ms(engine, case, protocol, order)
        if reading_ms > 0:
            readings_ms.append(reading_ms)
        on_reading(case)
        if len(readings_ms) >= protocol.least_repeats and _error_share(readings_ms) <= protocol.target_share:
            break
    return tuple(readings_ms)


def _reading_ms(engine: RunningEngine, case: StepCase, protocol: StepProtocol, order: random.Random) -> float:
    short, long = protocol.short_of(case), protocol.long_of(case)
    lengths = [short, long]
    order.shuffle(lengths)
    seconds = {tokens: engine.batch_s(_batch(case, protocol, tokens)) for tokens in lengths}
    return (seconds[long] - seconds[short]) / (long - short) * 1e3


def _error_share(readings_ms: Sequence[float]) -> float:
    """Standard error of the median of these readings, as a share of it; infinite for a single one."""
    if len(readings_ms) < 2:
        return math.inf
    factor = _MEDIAN_FACTOR if len(readings_ms) > 2 else 1.0
    error_ms = factor * statistics.stdev(readings_ms) / math.sqrt(len(readings_ms))
    return error_ms / statistics.median(readings_ms)


def _batch(case: StepCase, protocol: StepProtocol, output_tokens: int) -> Batch:
    return Batch(case.rows, protocol.prompt_tokens(case), output_tokens, seed=0)
