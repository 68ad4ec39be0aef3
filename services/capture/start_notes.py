"""What the starts of a profile tell of themselves, in sentences: where seconds went, at which clocks, how far apart.

Reads `software.measurement` of a profile's document; what an older or another kind of profile lacks is left out. No
torch here.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OTHER_CLOCKS_SHARE = 0.02  # under a power cap clocks wander in steps of 15 of 1,980 MHz: two of these say nothing
TOLD_SHARE = 0.01  # starts that agree this well need no reason
LEAST_TOLD_S = 0.5


@dataclass(frozen=True, slots=True)
class Clocks:
    """How a device ran in one start.

    Attributes:
        timed_sm_mhz: of the samples at the begin, in the middle and at the end of what times the steps of a profile.
    """

    sm_mhz: tuple[int, ...]
    memory_mhz: tuple[int, ...]
    temperature_c: tuple[int, ...]
    reasons: Mapping[str, int]
    timed_sm_mhz: tuple[int, ...]

    @classmethod
    def of(cls, samples: Sequence[Mapping[str, Any]]) -> Clocks:
        """The first sample, before any work, counts only where there is no other."""
        at_work = samples[1:] or samples
        named = [reason for sample in at_work for reason in sample["throttle_reasons"]]
        return cls(
            tuple(sample["sm_mhz"] for sample in at_work),
            tuple(sample["memory_mhz"] for sample in at_work),
            tuple(sample["temperature_c"] for sample in at_work),
            {reason: named.count(reason) for reason in sorted(set(named))},
            tuple(sample["sm_mhz"] for sample in samples if "time" in (sample["at"], sample.get("ended"))),
        )

    def told(self) -> str:
        slowed = [
            f"{reason} in {times} of {len(self.sm_mhz)} samples".replace("_", " ")
            for reason, times in self.reasons.items()
        ]
        return f"SM {_span(self.sm_mhz)} MHz, memory {_span(self.memory_mhz)} MHz, {_span(self.temperature_c)} °C" + (
            f", {', '.join(slowed)}" if slowed else ""
        )


def notes(measurement: Mapping[str, Any]) -> list[str]:
    """One sentence a fact, in the order of starts."""
    clocks = clocks_by_start(measurement.get("device_log", ()))
    spent = measurement.get("phase_s", ())
    told = [_seconds(number, phase_s) for number, phase_s in enumerate(spent, 1)]
    told += [f"Start {number}: {one.told()}." for number, one in enumerate(clocks, 1)]
    told += _other_clocks(clocks)
    for number, apart in enumerate(measurement.get("against_first_start", ()), 2):
        told.append(_apart(number, apart))
    return told


def clocks_by_start(samples: Sequence[Mapping[str, Any]]) -> list[Clocks]:
    """A start's samples begin with its first `build`, and nothing else comes before it."""
    starts: list[list[Mapping[str, Any]]] = []
    for sample in samples:
        if sample["at"] == "build" and sample.get("ended") is None:
            starts.append([])
        if starts:
            starts[-1].append(sample)
    return [Clocks.of(start) for start in starts]


def _seconds(number: int, phase_s: Mapping[str, float]) -> str:
    longest = sorted(phase_s.items(), key=lambda item: -item[1])
    parts = [f"{phase.replace('_', ' ')} {spent_s:.1f}" for phase, spent_s in longest if spent_s >= LEAST_TOLD_S]
    return f"Start {number}: {sum(phase_s.values()):.1f} s{': ' if parts else ''}{', '.join(parts)}."


def _other_clocks(clocks: Sequence[Clocks]) -> Iterator[str]:
    for number, one in enumerate(clocks[1:], 2):
        if not (one.timed_sm_mhz and clocks[0].timed_sm_mhz):
            continue
        first_mhz, own_mhz = (statistics.median(each.timed_sm_mhz) for each in (clocks[0], one))
        if abs(own_mhz / first_mhz - 1) > OTHER_CLOCKS_SHARE:
            told = f"SM {own_mhz:,.0f} MHz instead of {first_mhz:,.0f}"
            yield f"Start {number} was timed at other clocks than start 1: {told}."


def _apart(number: int, apart: Mapping[str, float]) -> str:
    told = (
        f"Start {number} against start 1: steps {apart['step_share']:+.2%}, runs alone {apart['run_share']:+.2%}; what "
        f"surrounds a run took {apart['around_ms']:.2f} ms instead of {apart['first_around_ms']:.2f}"
    )
    step, run = abs(apart["step_share"]), abs(apart["run_share"])
    around = abs(apart["around_ms"] / apart["first_around_ms"] - 1) if apart["first_around_ms"] > 0 else 0.0
    hosts = step > TOLD_SHARE and run < step / 2 and around > step
    return told + ("; most of the difference is the host's." if hosts else ".")


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
