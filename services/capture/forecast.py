"""Forecast: how long a measurement will still take, from what it has done so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from services.capture.readings import Phase, Progress


@dataclass(slots=True)
class _Start:
    """Seconds of each phase of one start; `began_s` is when `phase` began."""

    phase: Phase
    began_s: float
    spent_s: dict[Phase, float] = field(default_factory=dict)

    def enter(self, phase: Phase, now_s: float) -> None:
        if phase != self.phase:
            self.spent_s[self.phase] = self.spent_s.get(self.phase, 0.0) + now_s - self.began_s
            self.phase, self.began_s = phase, now_s

    @property
    def finished(self) -> bool:
        return self.phase == "done"


class Forecast:
    """Feed it every `Progress` of one job; starts may run one after the other or side by side. Not thread-safe.

    Within a phase time is taken to run on as it did. What comes after the phase is known from a finished start; before
    there is one it is not, and the answer is a least.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: dict[int, _Start] = {}

    def left(self, progress: Progress) -> str:
        """`about 2 min left`, `at least 10 s left`, or nothing while nothing is known."""
        now_s = self._clock()
        start = self._starts.setdefault(progress.start, _Start(progress.phase, now_s))
        start.enter(progress.phase, now_s)
        phase_s = start.spent_s.get(progress.phase, 0.0) + now_s - start.began_s
        left_s = phase_s / progress.done * (progress.total - progress.done) if progress.done else 0.0
        whole = next((other.spent_s for other in self._starts.values() if other.finished), None)
        if whole is None:
            return f"at least {_words(left_s)} left" if left_s >= 1 else ""
        left_s = max(left_s, whole.get(progress.phase, 0.0) - phase_s)
        to_come = whole.keys() - start.spent_s.keys() - {progress.phase}
        not_begun = progress.starts - len(self._starts)
        left_s += sum(whole[phase] for phase in to_come) + sum(whole.values()) * not_begun
        return f"about {_words(left_s)} left"


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
