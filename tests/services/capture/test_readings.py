"""Timing rounds, the split of memory, failures by kind, and a stdout that stays ours."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.capture.failures import failure_of, kind_of
from services.capture.memory import split_first
from services.capture.timing import HostClock, rounds
from workloads.errors import MeasurementFailed


def test_rounds_measure_every_key_equally_often_in_changing_order() -> None:
    seen: list[int] = []

    def measure(key: int) -> list[tuple[float, float]]:
        seen.append(key)
        return [(key + 1.0, float(key)), (key + 3.0, float(key)), (key + 2.0, float(key))]

    running = rounds((1, 2, 3, 4), measure, repeats=5, seed=3)
    told = []
    while True:
        try:
            told.append(next(running))
        except StopIteration as finished:
            timings = finished.value
            break
    assert told == seen and len(seen) == 20
    assert len({tuple(seen[i : i + 4]) for i in range(0, 20, 4)}) > 1
    assert timings[3].step_ms == 5.0 and timings[3].run_ms == 3.0 and timings[3].spread_ms == 0.0


def test_the_host_clock_reads_the_step_and_the_run() -> None:
    clock = HostClock()
    for mark, pause_s in enumerate((0.002, 0.004, 0.002, 0.0)):
        clock.mark(mark)
        time.sleep(pause_s)
    step_ms, run_ms = clock.read()
    assert 4.0 <= run_ms < step_ms and step_ms >= 8.0


@given(st.lists(st.floats(-4, 500), max_size=12))
def test_the_split_keeps_the_sum_and_a_pool_that_is_not_negative(costs: list[float]) -> None:
    fixed, marginal = split_first(costs)
    assert fixed >= 0 and len(marginal) == len(costs)
    assert fixed + sum(marginal) == pytest.approx(sum(costs), abs=1e-6)


def test_the_first_capture_pays_for_the_pool() -> None:
    assert split_first([130.0, 2.0, 2.0, 4.0, 2.0]) == (128.0, [2.0, 2.0, 2.0, 4.0, 2.0])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out_of_memory"),
        (RuntimeError("CUDA error: operation not permitted when stream is capturing"), "refused"),
        (RuntimeError("Cannot copy between CPU and CUDA tensors during CUDA graph capture"), "refused"),
        (MeasurementFailed("size 8: real rows change"), "wrong_result"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "device_error"),
    ],
)
def test_errors_of_torch_become_reasons(error: RuntimeError, kind: str) -> None:
    assert kind_of(error) == kind
    if kind == "device_error":
        with pytest.raises(MeasurementFailed, match="size 8: CUDA error: an illegal"):
            failure_of(8, error)
    else:
        assert failure_of(8, error).kind == kind


def test_protected_stdout_carries_our_lines_only(repository: Path) -> None:
    code = (
        "import os, subprocess\n"
        "from services.capture.stdout import protected_stdout\n"
        "print('before')\n"
        "with protected_stdout() as out:\n"
        "    os.write(1, b'native noise\\n'); print('python noise', flush=True)\n"
        "    subprocess.run(['echo', 'child noise'], check=True)\n"
        "    print('ours', file=out)\n"
        "print('after')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["before", "ours", "after"]
    assert set(done.stderr.splitlines()) == {"native noise", "python noise", "child noise"}
