"""Step time by size, through an engine's public interface only.

n equal requests run twice, once for few output tokens and once for many; what the second run takes longer, divided by
the steps that it has more, is one step of n. Prompts are the same in both and in every repeat, so an engine with a
prefix cache fills it in an untimed first run, and the timed runs hardly prefill. The first tokens, where requests still
arrive, are in both runs and cancel.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from services.capture.probes.base import Batch, RunningEngine

_SEED_STRIDE = 1_000_000  # prompts of different contexts share no prefix


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
        short_tokens, long_tokens: output lengths of the two runs.
        repeats: pairs of runs of every case, the cases in a new random order each time.
    """

    short_tokens: int = 24
    long_tokens: int = 88
    repeats: int = 5
    seed: int = 0

    @property
    def steps(self) -> int:
        return self.long_tokens - self.short_tokens

    def prompt_tokens(self, case: StepCase) -> int:
        """So long that the steps which make the difference are at the wanted context on average."""
        return max(1, case.context_tokens - (self.short_tokens + self.long_tokens) // 2)


def time_steps(
    engine: RunningEngine,
    cases: Sequence[StepCase],
    protocol: StepProtocol,
    on_reading: Callable[[StepCase], None] = lambda case: None,
) -> tuple[StepTiming, ...]:
    """Readings of every case, in the order of `cases`.

    A reading that is not above zero (the difference of two times on a machine that was busy) is left out; a case
    without any reading is left out.

    Raises:
        EngineFailed: see `RunningEngine.batch_s`.
    """
    order, readings_ms = random.Random(protocol.seed), dict[StepCase, list[float]]()
    for case in dict.fromkeys(cases):
        engine.batch_s(_batch(case, protocol, protocol.short_tokens))
        readings_ms[case] = []
    for _ in range(protocol.repeats):
        for case in order.sample(sorted(readings_ms, key=lambda c: (c.rows, c.context_tokens)), len(readings_ms)):
            reading_ms = _reading_ms(engine, case, protocol, order)
            if reading_ms > 0:
                readings_ms[case].append(reading_ms)
            on_reading(case)
    return tuple(
        StepTiming(case.rows, case.context_tokens, tuple(values)) for case, values in readings_ms.items() if values
    )


def medians_ms(timings: Sequence[StepTiming]) -> Mapping[StepCase, float]:
    return {StepCase(timing.rows, timing.context_tokens): timing.step_ms for timing in timings}


def _reading_ms(engine: RunningEngine, case: StepCase, protocol: StepProtocol, order: random.Random) -> float:
    lengths = [protocol.short_tokens, protocol.long_tokens]
    order.shuffle(lengths)
    seconds = {tokens: engine.batch_s(_batch(case, protocol, tokens)) for tokens in lengths}
    return (seconds[protocol.long_tokens] - seconds[protocol.short_tokens]) / protocol.steps * 1e3


def _batch(case: StepCase, protocol: StepProtocol, output_tokens: int) -> Batch:
    prompt_tokens = protocol.prompt_tokens(case)
    return Batch(case.rows, prompt_tokens, output_tokens, seed=_SEED_STRIDE * prompt_tokens)
