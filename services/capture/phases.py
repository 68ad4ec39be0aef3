"""Where the seconds of one fresh process go, and how its device runs, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Callable

from services.capture.device_log import DeviceLog
from services.capture.readings import Phase

SAMPLED_S = 2.0  # reading the counters takes milliseconds of the host


class PhaseLog:
    """A stopwatch over phases, which may alternate; the device is sampled wherever one ends and the next begins, and
    in the middle where asked.

    Begins with `build`. Not thread-safe.
    """

    def __init__(self, device: DeviceLog, clock: Callable[[], float] = time.perf_counter) -> None:
        self._device, self._clock = device, clock
        self._phase: Phase = "build"
        self._since_s = clock()
        self._sampled_s = self._since_s
        self.phase_s: dict[Phase, float] = {}
        device.sample(self._phase, None)

    def enter(self, phase: Phase) -> None:
        """From here on time belongs to this phase."""
        now_s = self._clock()
        self.phase_s[self._phase] = self.phase_s.get(self._phase, 0.0) + now_s - self._since_s
        if phase != self._phase:
            self._device.sample(phase, self._phase)
        self._phase, self._since_s = phase, now_s

    def within(self) -> None:
        """Sample the device in the middle of a phase, unless that was done less than `SAMPLED_S` ago."""
        now_s = self._clock()
        if now_s - self._sampled_s >= SAMPLED_S:
            self._sampled_s = now_s
            self._device.sample(self._phase, self._phase)

    @property
    def seconds(self) -> float:
        """All phases that have ended."""
        return sum(self.phase_s.values())
