"""What a profile says of its starts: where seconds went, at which clocks, whose the difference between them is."""

from __future__ import annotations

from typing import Any

from services.capture.device_log import DeviceLog
from services.capture.phases import PhaseLog
from services.capture.readings import Phase
from services.capture.start_notes import notes


class Counters(DeviceLog):
    """Notes when it is read."""

    def __init__(self) -> None:
        self.read: list[tuple[Phase, Phase | None]] = []

    def sample(self, at: Phase, ended: Phase | None) -> None:
        self.read.append((at, ended))


def test_seconds_belong_to_the_phase_that_was_entered_last() -> None:
    now_s = [0.0]
    counters = Counters()
    phases = PhaseLog(counters, clock=lambda: now_s[0])
    for phase, at_s in (("capture", 2.0), ("check", 3.0), ("capture", 7.0), ("done", 8.5)):
        now_s[0] = at_s
        phases.enter(phase)  # type: ignore[arg-type]
    assert phases.phase_s == {"build": 2.0, "capture": 2.5, "check": 4.0} and phases.seconds == 8.5
    phases.within()
    phases.within()
    assert counters.read[:3] == [("build", None), ("capture", "build"), ("check", "capture")]
    assert counters.read[-2:] == [("done", "capture"), ("done", "done")], "not again at once"


def sample(at: str, ended: str | None, sm_mhz: int, *reasons: str) -> dict[str, Any]:
    device = {"memory_mhz": 3201, "power_w": 400.0, "temperature_c": 50}
    return {"at": at, "ended": ended, "sm_mhz": sm_mhz, "throttle_reasons": list(reasons), **device}


def test_a_start_at_other_clocks_is_named() -> None:
    cool = [sample("build", None, 1980), sample("time", "build", 1980), sample("done", "time", 1965)]
    hot = [sample("build", None, 1980), sample("time", "build", 1700, "sw_power_cap"), sample("done", "time", 1690)]
    first, second, other = notes({"device_log": cool + hot})
    assert first == "Start 1: SM 1,965 to 1,980 MHz, memory 3,201 MHz, 50 °C."
    assert second.endswith("50 °C, sw power cap in 1 of 2 samples.")
    assert other == "Start 2 was timed at other clocks than start 1: SM 1,695 MHz instead of 1,972."
    assert len(notes({"device_log": cool + cool})) == 2


def test_a_difference_that_replays_do_not_share_is_the_hosts() -> None:
    apart = {"step_share": 0.0345, "run_share": 0.001, "around_ms": 1.27, "first_around_ms": 1.03}
    (told,) = notes({"against_first_start": [apart]})
    assert told == (
        "Start 2 against start 1: steps +3.45%, runs alone +0.10%; what surrounds a run took 1.27 ms instead of 1.03; "
        "most of the difference is the host's."
    )
    for change in ({"run_share": 0.03}, {"around_ms": 1.03}, {"step_share": 0.005}):
        (told,) = notes({"against_first_start": [apart | change]})
        assert "host" not in told


def test_phases_are_told_longest_first_and_old_profiles_tell_what_they_know() -> None:
    assert notes({"phase_s": [{"build": 3.0, "check": 12.25, "plan": 0.1}]}) == [
        "Start 1: 15.3 s: check 12.2, build 3.0."
    ]
    assert notes({}) == []
