"""Whole lists replayed on recorded steps: what is measured stands beside what dispatch says must happen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from services.capture import replay as replay_module
from services.capture.pool import replay_lists
from services.capture.readings import Progress
from services.capture.replay_job import ReplayJob, ReplayStep, ReplayWindow, plain_list, sample_window
from services.capture.spec import MeasureSpec
from services.capture.strategies.full import TracedStrategy
from workloads.errors import BadInput, MeasurementFailed
from workloads.traces.records import StepTrace

SPEC = MeasureSpec("tiny-llama", sizes=(1,), starts=1, iterations=1, warmup=1, device="cpu")
STEPS = (ReplayStep(1, 20, 2.0), ReplayStep(3, 90, 1.0), ReplayStep(8, 300, 1.0), ReplayStep(10, 100, 0.5))


def step_trace(size: np.ndarray[Any, Any], kv_tokens: np.ndarray[Any, Any]) -> StepTrace:
    rows = len(size)
    nan, zero = np.full(rows, np.nan), np.zeros(rows, dtype=np.int64)
    return StepTrace(
        size=size,
        steps=np.ones(rows, dtype=np.int64),
        family_index=zero.astype(np.int8),
        start_s=nan,
        step_ms=nan.copy(),
        kv_tokens=kv_tokens,
        padded_size=zero,
        fallback=np.full(rows, -1, dtype=np.int8),
        families=("decode_full",),
        units=("requests",),
        origin="census",
    )


def job(*sizes: tuple[int, ...], spec: MeasureSpec = SPEC) -> ReplayJob:
    lists = tuple(plain_list(f"list {i}", of) for i, of in enumerate(sizes))
    return ReplayJob(spec, lists, (ReplayWindow("all", STEPS), ReplayWindow("first", STEPS[:1])), repeats=2)


def test_one_list_is_captured_in_order_and_every_step_goes_where_dispatch_says() -> None:
    told: list[Progress] = []
    report = replay_lists(job((8, 1, 4)), told.append, use_ray=False)
    assert list(report.size_s) == [8, 4, 1], "largest first"
    assert report.capture_s == pytest.approx(sum(report.size_s.values())) and report.memory_mib >= 0
    whole, first = report.pairs
    rates = [whole.steps, whole.hit_rate, whole.exact_hit_rate]
    assert rates == pytest.approx([4.5, 4 / 4.5, 3 / 4.5])
    assert whole.padding_waste == pytest.approx(1.0 / (2 * 1 + 4 + 8 + 0.5 * 10))
    assert {(case.bucket, case.rows) for case in report.cases} == {(1, 1), (4, 3), (8, 8), (0, 10)}
    assert [case.kv_tokens for case in sorted(report.cases, key=lambda c: c.rows)] == pytest.approx(
        [20, 90, 300, 100], abs=5
    )
    by_rows = {case.rows: case.step_ms for case in report.cases}
    mean_ms = (2 * by_rows[1] + by_rows[3] + by_rows[8] + 0.5 * by_rows[10]) / 4.5
    assert whole.mean_step_ms == pytest.approx(mean_ms) and first.mean_step_ms == pytest.approx(by_rows[1])
    assert report.failures == () and report.clipped_share == 0 and report.device["name"] == "cpu"
    assert [p.phase for p in told if p.phase in ("build", "done")] == ["build", "done"]


def test_many_lists_share_one_capture_of_their_union() -> None:
    report = replay_lists(job((1, 8), (16,), (2, 16)), use_ray=False)
    assert list(report.size_s) == [16, 8, 2, 1]
    assert [(pair.list_name, pair.window) for pair in report.pairs] == [
        (name, window) for name in ("list 0", "list 1", "list 2") for window in ("all", "first")
    ]
    assert len(report.cases) == len({(case.bucket, case.rows) for case in report.cases}) == 9
    assert all(pair.mean_step_ms is not None and pair.mean_step_ms > 0 for pair in report.pairs)


class RefusesFour(TracedStrategy):
    def prepare(self, size: int) -> Any:
        if size == 4:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        return super().prepare(size)


class ForgetsInputs(TracedStrategy):
    """Size 8 replays on tokens of its own."""

    def prepare(self, size: int) -> Any:
        preparation = super().prepare(size)
        if size == 8:
            traced, arguments = self._traced[size]
            self._traced[size] = (traced, (arguments[0].clone(), *arguments[1:]))
        return preparation


@pytest.mark.parametrize(("kind", "size"), [(RefusesFour, 4), (ForgetsInputs, 8)])
def test_a_size_that_fails_costs_only_the_lists_that_hold_it(
    kind: type[TracedStrategy], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str, program: Any, device: object, *, warmup: int) -> TracedStrategy:
        return kind(program, warmup=warmup)

    monkeypatch.setattr(replay_module, "make_strategy", make)
    report = replay_lists(job((1, 4, 8), (1, 16)), use_ray=False)
    assert [failure.size for failure in report.failures] == [size]
    assert report.failures[0].kind == ("refused" if size == 4 else "wrong_result")
    measured = {pair.list_name: pair.mean_step_ms for pair in report.pairs if pair.window == "all"}
    assert measured["list 0"] is None and measured["list 1"] is not None


def test_nothing_captured_is_a_failed_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str, program: Any, device: object, *, warmup: int) -> TracedStrategy:
        return RefusesFour(program, warmup=warmup)

    monkeypatch.setattr(replay_module, "make_strategy", make)
    with pytest.raises(MeasurementFailed, match="no size could be captured"):
        replay_lists(job((4,)), use_ray=False)


def test_contexts_are_cut_to_the_cache_and_that_is_said() -> None:
    tight = MeasureSpec("tiny-llama", sizes=(1,), starts=1, iterations=1, warmup=1, device="cpu", max_kv_gib=1e-4)
    report = replay_lists(job((16,), spec=tight), use_ray=False)
    assert 0 < report.clipped_share <= 0.5
    assert max(case.kv_tokens for case in report.cases) < 300


def test_a_sample_stands_for_all_steps() -> None:
    rng = np.random.default_rng(0)
    size = rng.integers(1, 200, 5000)
    trace = step_trace(size, kv_tokens=size * 50.0)
    window = sample_window(trace, "decode_full", name="w", limit=64)
    weights = np.array([step.weight for step in window.steps])
    rows = np.array([step.rows for step in window.steps])
    assert len(window.steps) == 64 and weights.sum() == pytest.approx(5000)
    assert weights @ rows / 5000 == pytest.approx(size.mean(), rel=0.01)
    assert all(step.kv_tokens == step.rows * 50 for step in window.steps)
    short = sample_window(trace.window(0, 10), "decode_full", name="w", limit=64)
    assert [step.rows for step in short.steps] == size[:10].tolist()
    with pytest.raises(BadInput, match="no steps of family"):
        sample_window(trace, "draft", name="w", limit=4)


def test_lengths_of_a_step_add_up_and_repeat() -> None:
    step = ReplayStep(50, 50_000)
    assert step.lengths().sum() == pytest.approx(50_000, abs=50) and (step.lengths() == step.lengths()).all()
    assert step.lengths().min() > 300 and step.lengths().max() < 1700 and len(set(step.lengths().tolist())) > 20
