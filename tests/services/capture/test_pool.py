"""Fresh workers through a real local Ray: progress, merged starts, and workers that die."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.capture import pool
from services.capture.actor import Event, events
from services.capture.cluster import ray_cluster
from services.capture.pool import capture_list, measure
from services.capture.readings import FailureKind, Progress, SizeFailure, StartReport, WorkerFailure
from services.capture.spec import MeasureSpec
from workloads.errors import BadInput, MeasurementFailed, Unavailable

SPEC = MeasureSpec("tiny-llama", sizes=(1, 2, 4), starts=2, repeats=2, iterations=1, warmup=1)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with ray_cluster() as module:
        yield module


@pytest.mark.usefixtures("ray")
def test_starts_are_fresh_processes_that_stream_their_progress() -> None:
    told: list[Progress] = []
    measurement = measure(SPEC, told.append, command="test")
    assert measurement.profile.starts == 2
    assert measurement.profile.family("decode_full").sizes.tolist() == [1, 2, 4]
    assert [p.start for p in told if p.phase == "done"] == [0, 1]
    assert measurement.failures == ()


@pytest.mark.usefixtures("ray")
def test_a_finalist_list_is_captured_exactly_and_largest_first() -> None:
    told: list[Progress] = []
    report = capture_list(SPEC, (3, 1), told.append)
    assert [p.size for p in told if p.phase == "capture" and p.seconds is not None] == [3, 1]
    assert set(report.step_ms()) == {1, 3}
    assert report.fixed_s + sum(report.marginal_s.values()) > 0
    assert all(reading.fallback is None for reading in report.readings)


def busy_workers() -> list[int]:
    """Process ids of capture actors that are measuring, among our own descendants."""

    def field(pid: int, name: str) -> int:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1])

    def is_ours(pid: int) -> bool:
        while pid > 1:
            if pid == os.getpid():
                return True
            pid = field(pid, "PPid:")
        return False

    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"CaptureActor.measure" in (entry / "cmdline").read_bytes():
                found += [int(entry.name)] if is_ours(int(entry.name)) else []
    return found


@pytest.mark.usefixtures("ray")
def test_a_killed_worker_is_replaced_and_what_killed_it_is_left_out() -> None:
    killed: list[int] = []

    def kill_once(progress: Progress) -> None:
        if progress.phase == "capture" and not killed:
            assert progress.size == 4
            killed.extend(busy_workers())
            os.kill(killed[0], signal.SIGKILL)

    measurement = measure(SPEC, kill_once)
    assert len(killed) == 1
    assert [(failure.size, failure.kind) for failure in measurement.failures] == [(4, "worker_died")]
    assert measurement.profile.family("decode_full").sizes.tolist() == [1, 2]
    assert measurement.profile.starts == 2


@pytest.mark.usefixtures("ray")
def test_bad_input_found_by_a_worker_arrives_as_bad_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["MambaForCausalLM"]}))
    monkeypatch.setattr(pool, "_resolved", lambda spec: spec)  # as on a cluster, where only the worker sees the folder
    with pytest.raises(BadInput, match="'MambaForCausalLM' is not supported"):
        measure(replace(SPEC, model=str(tmp_path)))


@pytest.mark.usefixtures("ray")
def test_a_gpu_that_ray_does_not_have_is_unavailable(ray: Any) -> None:
    if ray.cluster_resources().get("GPU", 0):
        pytest.skip("there is a GPU here")
    with pytest.raises(Unavailable, match="Ray sees no GPU"):
        measure(replace(SPEC, device="cuda"))


def lost_at(
    *phases_and_sizes: tuple[str, int | None], kind: FailureKind = "device_error"
) -> tuple[pool.RunStart, list[MeasureSpec]]:
    """A way to run starts whose n-th worker is lost at the n-th place, and then one that works."""
    jobs: list[MeasureSpec] = []

    def run(spec: MeasureSpec, start: int) -> Iterator[Event]:
        jobs.append(spec)
        if len(jobs) > len(phases_and_sizes):
            yield from events(spec, start)
            return
        phase, size = phases_and_sizes[len(jobs) - 1]
        yield Progress(phase, 0, 1, size)  # type: ignore[arg-type]
        yield WorkerFailure(kind, "CUDA error: an illegal memory access was encountered")

    return run, jobs


def one_start(run: pool.RunStart, spec: MeasureSpec) -> tuple[StartReport, list[SizeFailure]]:
    failures: list[SizeFailure] = []
    return pool._one_start(spec, 0, run, failures, lambda _: None)[1], failures


def test_only_what_was_being_done_is_given_up() -> None:
    spec = replace(SPEC, prefill_tokens=(4, 8), contexts=(16,), device="cpu", measure_fallback=False)
    run, jobs = lost_at(("check", 2), ("prefill", 8), ("time", 1))
    report, failures = one_start(run, spec)
    assert [(failure.size, failure.kind) for failure in failures] == [(2, "device_error"), (8, "device_error")]
    assert jobs[-1].sizes == (1, 4) and jobs[-1].prefill_tokens == (4,)
    assert set(report.step_ms()) == {1, 4} and [reading.tokens for reading in report.prefill] == [4]


def test_a_worker_that_is_killed_before_it_begins_costs_nothing() -> None:
    run, jobs = lost_at(("build", None), ("start", None), kind="worker_died")
    report, failures = one_start(run, replace(SPEC, device="cpu", measure_fallback=False))
    assert failures == [] and set(report.step_ms()) == {1, 2, 4} and len(jobs) == 3


def test_a_worker_that_never_begins_or_keeps_dying_is_a_failed_measurement() -> None:
    run, jobs = lost_at(("build", None))
    with pytest.raises(MeasurementFailed, match="illegal memory access"):
        one_start(run, SPEC)
    assert len(jobs) == 1
    run, jobs = lost_at(*[("build", None)] * 9, kind="worker_died")
    with pytest.raises(MeasurementFailed, match="4 workers were lost"):
        one_start(run, SPEC)
    run, jobs = lost_at(*[("time", 1)] * 9)
    with pytest.raises(MeasurementFailed, match="4 workers were lost"):
        one_start(run, SPEC)
    run, jobs = lost_at(("capture", 1))
    with pytest.raises(MeasurementFailed):
        one_start(run, replace(SPEC, sizes=(1,)))
