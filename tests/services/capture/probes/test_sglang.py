"""SGLang through the same interface, against a stand-in server and its recorded start-up lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.capture.probes.base import ProbeRequest
from services.capture.probes.choose import choose_probe
from services.capture.probes.failures import EngineFailed
from services.capture.probes.step_time import StepCase, StepProtocol, time_steps
from tests.services.capture.probes.conftest import MakeLaunch
from workloads.errors import BadUsage

SPEC = "sglang@0.5.23"


def test_a_start_is_read_and_work_is_timed(launch: MakeLaunch, tmp_path: Path) -> None:
    asked = launch({"decode": (1, 4, 16)}, spec=SPEC, bucket_ms={"1": 2.0, "4": 5.0})
    running = choose_probe("sglang", "server").start(asked, tmp_path / "log")
    try:
        seen = running.observe()
        assert (seen.lists["decode"], seen.kv_tokens, seen.capture_s) == ((1, 4, 16), 2_261_377, 0.89)
        timed = time_steps(running, [StepCase(1, 40), StepCase(3, 40)], StepProtocol(4, 36, 5))
        assert [timing.step_ms for timing in timed] == pytest.approx([2.0, 5.0], rel=0.35)
        (one,) = running.serve([ProbeRequest(0.0, 9, 21, 1)], lambda done: None)
        assert one.output_tokens == 21 and one.tpot_ms is not None and 1.0 < one.tpot_ms < 20.0
    finally:
        running.stop()


def test_failures_are_typed(launch: MakeLaunch, tmp_path: Path) -> None:
    probe = choose_probe("sglang", "server")
    with pytest.raises(EngineFailed) as caught:
        probe.start(launch(spec=SPEC, fail="memory"), tmp_path / "log")
    assert caught.value.failure.kind == "out_of_memory_in_capture"
    with pytest.raises(BadUsage, match="speculative_algorithm cannot be passed on"):
        probe.start(launch(spec=SPEC, options={"speculative_algorithm": "EAGLE"}), tmp_path / "log")
    with pytest.raises(BadUsage, match="no probe starts tgi as server"):
        choose_probe("tgi", "server")
