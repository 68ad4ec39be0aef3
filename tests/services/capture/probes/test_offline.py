"""An engine as a Python class in a child process: the same interface, without HTTP."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from services.capture.probes.base import Launch, ProbeRequest
from services.capture.probes.choose import choose_probe
from services.capture.probes.failures import EngineFailed
from services.capture.probes.step_time import StepCase, StepProtocol, time_steps
from tests.services.capture.probes.conftest import MakeLaunch


def offline(launch: Launch) -> Launch:
    fakes = str(Path(__file__).with_name("fake_engines"))
    return replace(launch, command=(sys.executable,), environment={**launch.environment, "PYTHONPATH": fakes})


def test_steps_and_requests_are_timed_in_the_child(launch: MakeLaunch, tmp_path: Path) -> None:
    running = choose_probe("vllm", "offline").start(offline(launch({"capture": (1, 2, 8)})), tmp_path / "log")
    try:
        seen = running.observe()
        assert (seen.lists, seen.capture_s, seen.kv_tokens) == ({"capture": (1, 2, 8)}, 2.0, 547_824)
        timed = time_steps(running, [StepCase(1, 40), StepCase(5, 40)], StepProtocol(4, 36, 5))
        assert [timing.step_ms for timing in timed] == pytest.approx([1.5, 5.0], rel=0.35)
        done: list[int] = []
        late, alone = running.serve([ProbeRequest(0.1, 9, 21, 1), ProbeRequest(0.4, 9, 21, 2)], done.append)
        assert done[-1] == 2 and late.sent_s >= 0.1 and alone.output_tokens == 21
        assert alone.tpot_ms is not None and 1.0 < alone.tpot_ms < 15.0
    finally:
        running.stop()


def test_a_refusal_is_the_engines_own_sentence(launch: MakeLaunch, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed) as caught:
        choose_probe("vllm", "offline").start(offline(launch({"capture": ()})), tmp_path / "log")
    assert caught.value.failure.kind == "refused"
    assert "should contain at least one element" in caught.value.failure.sentence


def test_a_child_that_ends_while_it_works_is_a_typed_failure(launch: MakeLaunch, tmp_path: Path) -> None:
    running = choose_probe("vllm", "offline").start(offline(launch({"capture": (1, 2)})), tmp_path / "log")
    with pytest.raises(EngineFailed) as caught:  # nine requests have no bucket here, which the fake does not survive
        time_steps(running, [StepCase(9, 40)], StepProtocol(2, 4, 1))
    running.stop()
    assert caught.value.failure.kind == "died" and caught.value.failure.sentence == "list index out of range"
