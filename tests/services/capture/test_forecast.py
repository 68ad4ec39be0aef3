"""How long a measurement will still take."""

from __future__ import annotations

from services.capture.forecast import Forecast
from services.capture.job import describe
from services.capture.readings import Progress


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_first_start_says_what_it_knows_and_the_second_the_whole() -> None:
    clock = Clock()
    forecast = Forecast(clock)

    def told(phase: str, done: int, total: int, start: int, spent_s: float) -> str:
        clock.now_s += spent_s
        return forecast.left(Progress(phase, done, total, start=start, starts=2))  # type: ignore[arg-type]

    assert told("capture", 0, 10, 0, 0) == ""
    assert told("capture", 5, 10, 0, 10) == "at least 10 s left"
    assert told("time", 0, 4, 0, 10) == ""
    assert told("time", 2, 4, 0, 30) == "at least 30 s left"
    assert told("done", 1, 1, 0, 30) == "about 80 s left", "the second start"
    assert told("capture", 0, 10, 1, 0) == "about 80 s left", "20 s of capture and 60 s of timing, as before"
    assert told("capture", 5, 10, 1, 10) == "about 70 s left"
    assert told("time", 2, 4, 1, 70) == "about 60 s left", "the phase began late, so it is taken to last as before"


def test_a_line_tells_size_seconds_and_memory() -> None:
    at = Progress("capture", 3, 40, 128, start=0, starts=2, seconds=0.123, memory_mib=20.6)
    assert describe(at) == "start 1 of 2, capture size 128 (3 of 40), 0.12 s, 21 MiB"
