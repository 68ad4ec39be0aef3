"""How long one reading goes on."""

from __future__ import annotations

import pytest

from services.capture.timing import READING_MS, reading


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
