"""Step times that survive a full KV cache, staggered arrival and a client that jitters, at a bounded price."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from services.capture.probes.base import Batch, RunningEngine, prompt_ids
from services.capture.probes.step_time import StepCase, StepProtocol, failed_cases, time_steps
from services.capture.probes.tasks import Room
from tests.services.capture.probes.virtual import Costs, VirtualEngine

KV_TOKENS = 60_000
ROOM = Room(longest_tokens=8192, kv_tokens=KV_TOKENS)
SIZES = (1, 8, 32, 64, 96, 128)
CASES = [StepCase(size, ROOM.context(size, 640)) for size in SIZES]


def card(sizes: tuple[int, ...] = SIZES, start: int = 0, **costs: float) -> VirtualEngine:
    made = Costs(arrival_ms=0.3, kv_tokens=KV_TOKENS, **costs)  # type: ignore[arg-type]
    return VirtualEngine(made, sizes, start, Path("/dev/null"))


def errors(engine: VirtualEngine, cases: list[StepCase], protocol: StepProtocol) -> list[float]:
    """Share by which every reading is off, largest size first."""
    timed = time_steps(engine, cases, protocol)
    true_ms = [engine.costs.step_ms(t.rows, t.context_tokens, engine.sizes, engine.number) for t in timed]
    return [timing.step_ms / ms - 1 for timing, ms in zip(timed, true_ms, strict=True)]


@pytest.mark.parametrize("vocabulary", [1000, 32_000, 65_792, 128_256, 151_936])
def test_a_shorter_prompt_is_the_beginning_of_a_longer_one(vocabulary: int) -> None:
    longest = prompt_ids(2049, 7, vocabulary)
    assert all(prompt_ids(tokens, 7, vocabulary) == longest[:tokens] for tokens in (1, 2, 17, 64, 865, 2048))
    assert prompt_ids(64, 8, vocabulary) != longest[:64]


def test_every_size_is_read_to_one_percent_though_the_cache_is_small_and_the_client_jitters() -> None:
    engines = [card(start=start, jitter_ms=2.0) for start in range(12)]
    off = np.array([errors(engine, CASES, StepProtocol()) for engine in engines])
    assert off.std() < 0.005 and np.mean(np.abs(off) < 0.01) > 0.95
    assert sum(case.rows * case.context_tokens for case in CASES) > 2 * KV_TOKENS
    assert max(engine.costs.busy_ms for engine in engines) < 12e3, "six sizes, prompts included"


def test_prompts_are_computed_once_and_nothing_of_them_between_the_readings() -> None:
    engine, first = card(), CASES[-1]
    time_steps(engine, [first], StepProtocol(repeats=2))
    prompts = first.rows * StepProtocol().prompt_tokens(first)
    assert engine.costs.computed_tokens == prompts + 4 * first.rows  # a token a row and run
    time_steps(engine, [StepCase(first.rows, first.context_tokens // 2)], StepProtocol(repeats=2))
    assert engine.costs.computed_tokens == prompts + 9 * first.rows  # the shorter prompt was there before


def test_cases_that_take_turns_with_prompts_of_their_own_are_misread() -> None:
    """What the protocol is for: without it one of two runs computes prompts that the other one finds."""
    engine, rows, contexts = card(), 64, (320, 480, 640)

    def seconds(context_tokens: int, output_tokens: int) -> float:
        return engine.batch_s(Batch(rows, context_tokens, output_tokens, seed=1_000 * context_tokens))

    for context_tokens in contexts:
        seconds(context_tokens, 1)
    readings_ms = [(seconds(tokens, 55) - seconds(tokens, 7)) / 48 * 1e3 for tokens in contexts]
    true_ms = [engine.costs.step_ms(rows, tokens, SIZES, 0) for tokens in contexts]
    assert all(abs(reading / true - 1) > 0.5 for reading, true in zip(readings_ms, true_ms, strict=True))


def test_a_short_run_that_ends_before_the_last_request_has_come_is_no_reading() -> None:
    wide = [StepCase(128, 327)]  # where whole blocks ask for no longer run
    hasty = StepProtocol(short_tokens=2, long_tokens=10, arrivals_per_step=10_000)
    assert abs(errors(card(), wide, hasty)[0]) > 0.03
    assert abs(errors(card(), wide, StepProtocol(short_tokens=2, long_tokens=10))[0]) < 0.015


def test_a_case_is_done_as_soon_as_its_readings_agree() -> None:
    quiet = time_steps(card(), CASES, StepProtocol(repeats=6))
    assert {len(timing.readings_ms) for timing in quiet} == {2}
    noisy = time_steps(card(jitter_ms=30.0), CASES, StepProtocol(repeats=6))
    assert len(noisy[0].readings_ms) > 2


def test_a_case_without_a_reading_is_named() -> None:
    class Backwards(VirtualEngine):
        """Longer runs of one row take less time."""

        def batch_s(self, batch: Batch) -> float:
            return super().batch_s(batch) if batch.rows > 1 else 1.0 / batch.output_tokens

    engine: RunningEngine = Backwards(Costs(), SIZES, 0, Path("/dev/null"))
    timed = time_steps(engine, CASES, StepProtocol(repeats=2))
    assert [timing.rows for timing in timed] == list(SIZES[1:])
    assert failed_cases(CASES, timed) == (CASES[0],)


def test_room_is_for_prompts_once_and_outputs_twice() -> None:
    protocol = StepProtocol()
    for rows in (1, 16, 100, 128):
        context = ROOM.context(rows, 4096)
        assert context >= protocol.least_context(rows)
        assert protocol.kv_tokens(StepCase(rows, context)) <= KV_TOKENS
        engine = card(sizes=(128,))
        (timing,) = time_steps(engine, [StepCase(rows, context)], StepProtocol(repeats=4, target_share=0.0))
        again = engine.costs.computed_tokens - rows * protocol.prompt_tokens(StepCase(rows, context))
        assert again == 2 * len(timing.readings_ms) * rows  # a token a row and run
    assert ROOM.context(1, 100_000) <= ROOM.longest_tokens
    assert ROOM.context(4, 640) == Room(8192, None).context(4, 640) == 640
