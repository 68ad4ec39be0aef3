"""The timing protocol: clocks, and rounds over all cases in random order."""

from __future__ import annotations

import random
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence

import torch

from services.capture.readings import Timing

Measure = Callable[[int], list[tuple[float, float]]]
"""key -> (step_ms, run_ms) of every timed iteration."""


READING_MS = 20.0
"""A reading that has lasted so long is long enough: the events' resolution is a ten-thousandth of it, and what one
step differs from the next is averaged by rounds, not by more of the same in a row."""


ROUNDS_MS, LEAST_ROUNDS = 100.0, 3
"""Readings of one key in different rounds that have lasted so long are enough of them, but never fewer rounds."""


def synchronize(device: torch.device) -> None:
    """Wait until the device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class StepClock(ABC):
    """Four marks in one step: begin, before the run, after the run, end."""

    @abstractmethod
    def mark(self, index: int) -> None: ...

    @abstractmethod
    def read(self) -> tuple[float, float]:
        """(begin to end, run alone) in ms, once the device has reached the last mark."""


class CudaClock(StepClock):
    """CUDA events on the current stream. The stream is idle when a step begins, so the begin event is stamped at once
    and the host's own work (copies, planning, launches) is inside the step, as an engine without overlap pays it."""

    def __init__(self) -> None:
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]

    def mark(self, index: int) -> None:
        self._events[index].record()

    def read(self) -> tuple[float, float]:
        self._events[3].synchronize()
        step_ms: float = self._events[0].elapsed_time(self._events[3])
        return step_ms, self._events[1].elapsed_time(self._events[2])


class HostClock(StepClock):
    """`perf_counter`, for CPUs."""

    def __init__(self) -> None:
        self._marks_s = [0.0] * 4

    def mark(self, index: int) -> None:
        self._marks_s[index] = time.perf_counter()

    def read(self) -> tuple[float, float]:
        begin_s, before_s, after_s, end_s = self._marks_s
        return (end_s - begin_s) * 1e3, (after_s - before_s) * 1e3


def make_clock(device: torch.device) -> StepClock:
    return CudaClock() if device.type == "cuda" else HostClock()


def reading(step: Callable[[], tuple[float, float]], iterations: int) -> list[tuple[float, float]]:
    """Run one untimed and `iterations` timed steps, or fewer once they have lasted `READING_MS` together: a step that
    long has no use for one that warms caches up, and is itself what is read.

    Args:
        step: runs one and returns (step_ms, run_ms).
    """
    samples: list[tuple[float, float]] = []
    while len(samples) <= iterations and sum(step_ms for step_ms, _ in samples) < READING_MS:
        samples.append(step())
    return samples[1:] or samples


def rounds(
    keys: Sequence[int], measure: Measure, *, repeats: int, seed: int
) -> Generator[int, None, dict[int, Timing]]:
    """Measure every key `repeats` times, each round in a new random order; yields the key that comes next.

    A key whose timed steps have lasted `ROUNDS_MS` together is left out of what comes after `LEAST_ROUNDS`: what varies
    from step to step is what the host adds, and that is little of a long one.

    A drift of clocks or temperature then spreads over all keys instead of tilting the curve.
    """
    order = list(keys)
    shuffle = random.Random(seed).shuffle
    medians: dict[int, list[tuple[float, float]]] = {key: [] for key in order}
    lasted_ms = dict.fromkeys(order, 0.0)
    for _ in range(repeats):
        shuffle(order)
        for key in order:
            if len(medians[key]) >= LEAST_ROUNDS and lasted_ms[key] >= ROUNDS_MS:
                continue
            yield key
            samples = measure(key)
            steps_ms, runs_ms = zip(*samples, strict=True)
            lasted_ms[key] += sum(steps_ms)
            medians[key].append((statistics.median(steps_ms), statistics.median(runs_ms)))
    return {key: summary(values) for key, values in medians.items()}


def summary(medians: Sequence[tuple[float, float]]) -> Timing:
    """Median and spread over rounds of (step_ms, run_ms)."""
    steps_ms = [step for step, _ in medians]
    return Timing(
        step_ms=statistics.median(steps_ms),
        run_ms=statistics.median(run for _, run in medians),
        spread_ms=statistics.pstdev(steps_ms),
    )
