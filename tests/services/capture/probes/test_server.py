"""An engine behind HTTP: started, read, timed, stopped; and every way in which a start goes wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from services.capture.probes.base import ProbeRequest
from services.capture.probes.census import census_of
from services.capture.probes.failures import EngineFailed
from services.capture.probes.process import session_members
from services.capture.probes.server import RunningServer
from services.capture.probes.step_time import StepCase, StepProtocol, time_steps
from services.capture.probes.vllm_server import VllmServer
from tests.services.capture.probes.conftest import MakeLaunch
from tuner.engines.registry import engine
from workloads.errors import BadUsage


def test_a_start_is_read_from_the_log_and_steps_are_timed(launch: MakeLaunch, tmp_path: Path) -> None:
    asked = launch({"capture": (1, 4, 16)}, bucket_ms={"1": 2.0, "4": 3.0, "16": 6.0})
    running = VllmServer().start(asked, tmp_path / "log")
    try:
        seen = running.observe()
        assert (seen.version, seen.lists, seen.kv_tokens) == ("0.23.0", {"capture": (1, 4, 16)}, 547_824)
        assert seen.capture_s == 1.0 and seen.graph_memory_mib == pytest.approx(0.73 * 1024)
        cases = [StepCase(1, 60), StepCase(3, 60), StepCase(5, 60)]
        timed = time_steps(running, cases, StepProtocol(short_tokens=8, long_tokens=40, repeats=5))
        assert [timing.rows for timing in timed] == [1, 3, 5]
        assert [timing.step_ms for timing in timed] == pytest.approx([2.0, 3.0, 6.0], rel=0.35)
    finally:
        running.stop()


def test_requests_arrive_when_they_should_and_are_timed_one_by_one(launch: MakeLaunch, tmp_path: Path) -> None:
    running = VllmServer().start(launch({"capture": (1, 2, 16)}, bucket_ms={"1": 4.0, "2": 8.0}), tmp_path / "log")
    done: list[int] = []
    try:
        first, second, alone = running.serve(
            [ProbeRequest(0.0, 10, 21, 1), ProbeRequest(0.0, 10, 21, 2), ProbeRequest(0.4, 10, 21, 3)], done.append
        )
        assert running.metrics() == {"preemptions": 0.0, "generation_tokens": 63.0}
    finally:
        running.stop()
    assert done == [1, 2, 3] and {first.error, second.error, alone.error} == {None}
    assert first.output_tokens == 21 and alone.sent_s >= 0.4
    assert first.tpot_ms is not None and 6.0 < first.tpot_ms < 80.0
    assert alone.tpot_ms is not None and 3.0 < alone.tpot_ms < 40.0
    assert alone.ttft_ms > 0


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_served_steps_are_counted_in_the_log_by_either_model_runner(
    launch: MakeLaunch, tmp_path: Path, runner: str
) -> None:
    running = VllmServer().start(launch({"capture": (1, 4)}, runner=runner), tmp_path / "log")
    try:
        running.serve([ProbeRequest(0.0, 10, 4, 1)], lambda done: None)
        time.sleep(0.3)
        begin = running.log.stat().st_size
        running.serve([ProbeRequest(0.0, 10, 8, seed) for seed in range(3)], lambda done: None)
        time.sleep(0.3)
        found = census_of(running.log, begin, "vllm")
    finally:
        running.stop()
    assert found is not None and found.fallback == 0.0 and found.steps >= 8
    assert found.exact + found.padded == pytest.approx(1.0)
    assert found.padded > 0.5 and 0.0 < found.padding_waste < 0.7


def test_nothing_is_left_of_an_engine_that_does_not_want_to_go(launch: MakeLaunch, tmp_path: Path) -> None:
    running = VllmServer().start(launch(orphan=True), tmp_path / "log")
    assert isinstance(running, RunningServer)
    process = running._process
    assert len(session_members(process.child.pid)) == 2
    process.stop(grace_s=0.5)
    assert session_members(process.child.pid) == []
    running.stop()  # a second time does no harm


def test_an_engine_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from services.capture.probes.process import EngineProcess\n"
        "child = EngineProcess([sys.executable, '-c', 'import time; time.sleep(600)'], {}, Path(sys.argv[1]))\n"
        "print(child.child.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        engine = int(it.stdout.readline())
        assert session_members(engine) == [engine]
        it.kill()
    deadline = time.monotonic() + 10
    while session_members(engine) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert session_members(engine) == []


@pytest.mark.parametrize(
    ("stub", "kind", "words"),
    [
        ({"fail": "memory"}, "out_of_memory_in_capture", "CUDA out of memory"),
        ({"fail": "kv"}, "no_kv_memory", "No available memory for the cache blocks"),
        ({"fail": "hang"}, "timeout", "not ready after"),
    ],
)
def test_a_start_that_fails_has_a_typed_reason(
    launch: MakeLaunch, tmp_path: Path, stub: dict[str, str], kind: str, words: str
) -> None:
    with pytest.raises(EngineFailed) as caught:
        VllmServer().start(launch(ready_s=1.0 if kind == "timeout" else 30.0, **stub), tmp_path / "log")
    assert caught.value.failure.kind == kind and words in caught.value.failure.sentence


@pytest.mark.parametrize(
    ("sizes", "options", "code", "words"),
    [
        (
            (1, 2, 600),
            {"max_num_batched_tokens": "512", "max_cudagraph_capture_size": "600"},
            "MAX_MISMATCH",
            "customized max_cudagraph_capture_size(=600) should be consistent",
        ),
        ((), {}, "EMPTY_LIST", "cudagraph_capture_sizes should contain at least one element"),
    ],
)
def test_what_the_engine_refuses_ends_in_its_own_sentence_and_lint_had_said_so(
    launch: MakeLaunch, tmp_path: Path, sizes: tuple[int, ...], options: dict[str, str], code: str, words: str
) -> None:
    rules = engine("vllm@0.23.0")
    said = rules.lint({"capture": sizes}, rules.options({"max_num_seqs": "16"} | options))
    assert code in {problem.code for problem in said if problem.severity == "error"}
    with pytest.raises(EngineFailed) as caught:
        VllmServer().start(launch({"capture": sizes}, options=options), tmp_path / "log")
    assert caught.value.failure.kind == "refused" and words in caught.value.failure.sentence


def test_an_option_that_cannot_be_passed_on_is_refused_before_anything_starts(
    launch: MakeLaunch, tmp_path: Path
) -> None:
    with pytest.raises(BadUsage, match="num_speculative_tokens cannot be passed on"):
        VllmServer().start(launch(options={"num_speculative_tokens": "3"}), tmp_path / "log")
    with pytest.raises(BadUsage, match=r"vllm 0\.20 or newer"):
        VllmServer().start(launch(spec="vllm@0.11.0"), tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_an_engine_that_is_not_installed_says_so(launch: MakeLaunch, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed) as caught:
        VllmServer().start(replace(launch(), command=(sys.executable,)), tmp_path / "log")
    assert caught.value.failure.kind == "not_installed" and "vllm" in caught.value.failure.sentence
