"""A whole start on a CPU in this process, and sizes that fail without taking the others along."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from services.capture import few_probes, process
from services.capture import session as session_module
from services.capture.pool import measure, measure_profile
from services.capture.readings import Progress
from services.capture.spec import DraftShape, MeasureSpec
from services.capture.strategies.full import TracedStrategy
from tuner.probe_plan import ProbePlan
from tuner.profile_file import dump_profile, parse_profile
from workloads.errors import BadInput, MeasurementFailed, Unavailable


def small(**change: object) -> MeasureSpec:
    values: dict[str, object] = {"model": "tiny-llama", "sizes": (1, 4, 8), "starts": 1, "repeats": 2, "iterations": 1}
    return MeasureSpec(**(values | {"device": "cpu", "warmup": 1} | change))  # type: ignore[arg-type]


def test_one_bucket_of_a_mixture_of_experts_is_filled_to_many_degrees() -> None:
    measurement = measure(small(model="tiny-qwen3-moe", sizes=(1, 8, 32), contexts=(16, 32)), use_ray=False)
    family, model = measurement.profile.family("decode_full"), measurement.reports[0].step_model
    assert model is not None
    fills = {(point.context_tokens, point.bucket): set[int]() for point in model.points}
    for point in model.points:
        fills[point.context_tokens, point.bucket].add(point.rows)
    assert fills.pop((16, 8)) == {1, 2, 3, 4, 6, 8}
    assert all(len(rows) <= 2 for rows in fills.values()) and fills
    assert {2, 3, 4, 5, 7, 8, 17, 32} <= set(family.row_curve.rows.tolist()), "padding is one more row"
    assert (family.bucket_ms() > 0).all()


def test_a_start_measures_everything_that_was_asked() -> None:
    told: list[Progress] = []
    spec = small(fallback_sizes=(12,), prefill_tokens=(4, 16), prefixes=(0, 32), contexts=(16, 32, 64), starts=2)
    measurement = measure(spec, told.append, use_ray=False, command="captune profile measure")
    profile, (report, _) = measurement.profile, measurement.reports
    family = profile.family("decode_full")
    assert family.sizes.tolist() == [1, 4, 8, 12] and family.starts.tolist() == [2, 2, 2, 2]
    for column in (family.step_ms, family.replay_ms, family.fallback_ms, family.capture_s):
        assert (column > 0).all()
    assert (family.replay_ms <= family.step_ms).all() and (family.spread_ms >= 0).all()
    assert profile.prefill is not None
    assert sorted(zip(profile.prefill.prefix_tokens, profile.prefill.tokens, strict=True)) == [
        (0, 4),
        (0, 16),
        (32, 4),
        (32, 16),
    ]
    assert report.step_model is not None
    assert {point.context_tokens for point in report.step_model.points} == {16, 32, 64}
    assert {point.rows / point.bucket for point in report.step_model.points} >= {1.0, 0.5}
    captured = [p.size for p in told if p.phase == "capture" and p.seconds is not None and p.start == 0]
    assert captured == [8, 4, 1, 12], "largest first, the sizes above the ladder apart"
    assert [p.phase for p in told if p.phase in ("build", "done")] == ["build", "done"] * 2
    assert profile.software is not None
    protocol = profile.software["measurement"]
    assert [row["size"] for row in protocol["capture_split"]] == [1, 4, 8, 12]  # type: ignore[index]
    assert all(row["record_s"] > 0 and row["instantiate_s"] == 0 for row in protocol["capture_split"])  # type: ignore[index]
    first_s, second_s = protocol["phase_s"]  # type: ignore[index]
    assert set(first_s) - set(second_s) == {"prefill"} and second_s["check"] > 0, "prefill is read once"
    assert sum(report.phase_s.values()) == report.seconds > 0
    assert protocol["against_first_start"][0]["around_ms"] >= 0  # type: ignore[index]
    assert protocol["memory_split"]["outputs_mib"] > 0 and protocol["gpu_busy"] == []  # type: ignore[index]
    assert profile.starts == 2 and profile.command == "captune profile measure"


def test_a_cpu_profile_says_so_and_survives_its_file() -> None:
    profile = measure_profile(small(sizes=(1, 2)), use_ray=False)
    assert profile.device is not None and profile.device["name"] == "cpu" and profile.device["processor"]
    assert profile.name == "cpu-tiny-llama"
    assert profile.software is not None and profile.software["torch"] == torch.__version__
    assert profile.model is not None and profile.model["weights"] == "random"
    text = dump_profile(profile)
    assert dump_profile(parse_profile(text)) == text


def test_eager_is_a_strategy_without_captures() -> None:
    family = measure_profile(small(strategy="eager"), use_ray=False).family("decode_eager")
    assert family.capture_s.tolist() == [0.0, 0.0, 0.0]
    assert family.fallback_ms.tolist() == family.step_ms.tolist()


class FailingStrategy(TracedStrategy):
    """Size 4 does not fit, size 8 is refused."""

    def prepare(self, size: int):  # type: ignore[no-untyped-def]
        if size == 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB.\nmore lines")
        if size == 8:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        return super().prepare(size)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def make(name: str, program: object, device: object, *, warmup: int) -> TracedStrategy:
        return FailingStrategy(program, warmup=warmup)  # type: ignore[arg-type]

    monkeypatch.setattr(process, "make_strategy", make)
    yield


@pytest.mark.usefixtures("failing")
def test_a_size_that_fails_is_a_record_and_the_others_keep_their_numbers() -> None:
    measurement = measure(small(sizes=(1, 2, 4, 8)), use_ray=False)
    assert measurement.profile.family("decode_full").sizes.tolist() == [1, 2]
    assert [(f.size, f.kind) for f in measurement.failures] == [(8, "refused"), (4, "out_of_memory")]
    assert measurement.failures[1].message == "CUDA out of memory. Tried to allocate 20 GiB."
    software = measurement.profile.software
    assert software is not None and len(software["measurement"]["failures"]) == 2  # type: ignore[index]


@pytest.mark.usefixtures("failing")
def test_no_size_at_all_is_a_failed_measurement() -> None:
    with pytest.raises(MeasurementFailed, match="no size could be measured"):
        measure(small(sizes=(4, 8)), use_ray=False)


def test_a_model_that_is_not_there_and_a_device_that_is_not_there() -> None:
    with pytest.raises(BadInput, match="neither a file"):
        measure(small(model="no-such-model"), use_ray=False)
    if not torch.cuda.is_available():
        with pytest.raises(Unavailable, match="no CUDA device"):
            measure(small(device="cuda"), use_ray=False)


BLOCKED = (
    "polars",
    "numba",
    "optuna",
    "sqlalchemy",
    "alembic",
    "platformdirs",
    "fastapi",
    "streamlit",
    "typer",
    "rich",
)


def test_a_gpu_node_needs_torch_numpy_ray_and_pydantic_only(repository: Path) -> None:
    code = f"""
import importlib, pkgutil, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED!r}:
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Block())
import services.capture, workloads.models
for package in (services.capture, workloads.models):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.startswith("services.capture.probes."):
            continue  # they run where the command runs, with the core: they read logs and solve
        importlib.import_module(module.name)
from tuner import dispatch, profile_file
from services.capture.pool import measure_profile
from services.capture.spec import MeasureSpec
spec = MeasureSpec("tiny-llama", sizes=(1, 2), starts=1, repeats=1, device="cpu")
print(profile_file.dump_profile(measure_profile(spec, use_ray=False)))
"""
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert parse_profile(done.stdout).family("decode_full").sizes.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("change", "family", "unit"),
    [
        ({"family": "prefill", "strategy": "piecewise"}, "prefill_piecewise", "tokens"),
        ({"family": "target_verify", "tokens_per_request": 3, "contexts": (16, 32)}, "target_verify", "requests"),
        ({"family": "draft", "draft": DraftShape(2, 3), "contexts": (16, 32)}, "draft", "requests"),
    ],
)
def test_other_families_are_measured_the_same_way(change: dict[str, object], family: str, unit: str) -> None:
    profile = measure_profile(small(**change), use_ray=False)
    cost = profile.family(family)
    assert cost.unit == unit and cost.sizes.tolist() == [1, 4, 8]
    assert (cost.replay_ms > 0).all() and (cost.fallback_ms > 0).all()
    assert parse_profile(dump_profile(profile)).families.keys() == {family}


@pytest.fixture
def even_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that take 1 ms and a tenth a row: what is probed must not hang on how busy this machine is."""

    def iterate(self: object, step: object, strategy: object, batch: object, size: int) -> list[tuple[float, float]]:
        return [(1 + size / 10, 1 + size / 10)]

    monkeypatch.setattr(session_module.CaptureSession, "iterate", iterate)


@pytest.mark.usefixtures("even_clock")
def test_eager_steps_are_read_at_sizes_that_stand_for_all() -> None:
    sizes = tuple(range(1, 25))
    cost = measure_profile(small(sizes=sizes), use_ray=False).family("decode_full")
    read = cost.sizes[np.isfinite(cost.fallback_ms)]
    assert {1, 24} <= set(read.tolist()) and len(read) <= session_module.MOST_FALLBACK_SIZES
    assert cost.fallback_ms_at(cost.sizes) == pytest.approx(1 + cost.sizes / 10)


@pytest.mark.usefixtures("even_clock")
def test_few_probes_choose_their_own_sizes_and_a_second_start_reads_them_again() -> None:
    told: list[Progress] = []
    plan = ProbePlan(candidates=tuple(range(1, 17)), tolerance=0.0001, most_probes=8, at_once=2)
    measurement = measure(small(sizes=(1, 8, 16), probing=plan, starts=2), told.append, use_ray=False)
    first, second = measurement.reports
    assert first.probing is not None and second.probing is None
    probed = set(first.probing.sizes)
    assert {1, 8, 16} < probed <= set(plan.candidates) and len(probed) <= 8
    assert first.probing.bound_ms <= first.probing.mean_ms and set(first.probing.best) <= probed
    assert [reading.size for reading in second.readings] == sorted(probed)
    family = measurement.profile.family("decode_full")
    assert family.sizes.tolist() == sorted(probed) and set(family.starts.tolist()) == {2}
    late = probed - {1, 8, 16}
    assert late.isdisjoint(first.marginal_mib), "memory in a pool that others have grown says nothing"
    assert late <= set(first.marginal_s) and late <= set(second.marginal_mib)
    software = measurement.profile.software
    assert software is not None and software["measurement"]["probing"][0]["best"] == first.probing.best  # type: ignore[index]
    assert "probe" in {progress.phase for progress in told} and first.phase_s["plan"] > 0


@pytest.mark.usefixtures("even_clock")
def test_probing_ends_in_time_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_probes, "PROBING_S", 0.0)
    plan = ProbePlan(candidates=tuple(range(1, 17)), tolerance=0.0001, at_once=2)
    probing = measure(small(sizes=(1, 8, 16), probing=plan), use_ray=False).reports[0].probing
    assert probing is not None and probing.rounds == 0 and probing.sizes == (1, 8, 16)
    assert probing.bound_ms < probing.mean_ms, "what is not known is said"


@pytest.mark.usefixtures("even_clock")
def test_a_size_that_cannot_be_captured_is_not_probed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TracedStrategy.prepare

    def refuse(self: TracedStrategy, size: int) -> object:
        if size not in (1, 8, 16):
            raise RuntimeError("operation not permitted when stream is capturing")
        return whole(self, size)

    monkeypatch.setattr(TracedStrategy, "prepare", refuse)
    plan = ProbePlan(candidates=tuple(range(1, 17)), tolerance=0.0001, at_once=4)
    measurement = measure(small(sizes=(1, 8, 16), probing=plan), use_ray=False)
    assert measurement.profile.family("decode_full").sizes.tolist() == [1, 8, 16]
    failed = [failure.size for failure in measurement.failures]
    assert failed and len(failed) == len(set(failed))
