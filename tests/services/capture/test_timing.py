"""How long one reading goes on, and how many there are of a key."""

from __future__ import annotations

import pytest

from services.capture.timing import LEAST_ROUNDS, READING_MS, ROUNDS_MS, reading, rounds


@pytest.mark.parametrize(
    ("step_ms", "runs", "kept"),
    [(2.0, 4, 3), (READING_MS * 0.4, 3, 2), (READING_MS * 0.7, 2, 1), (READING_MS * 2, 1, 1)],
)
def test_long_steps_are_read_fewer_times(step_ms: float, runs: int, kept: int) -> None:
    ran: list[float] = []

    def step() -> tuple[float, float]:
        ran.append(step_ms)
        return step_ms, step_ms / 2

    assert reading(step, 3) == [(step_ms, step_ms / 2)] * kept
    assert len(ran) == runs


def test_keys_that_were_read_long_enough_leave_the_later_rounds() -> None:
    step_ms = {1: ROUNDS_MS / 10, 2: ROUNDS_MS / 3.5, 3: ROUNDS_MS}
    told = list(rounds(tuple(step_ms), lambda key: [(step_ms[key], step_ms[key])], repeats=6, seed=1))
    assert [told.count(key) for key in step_ms] == [6, 4, LEAST_ROUNDS]
