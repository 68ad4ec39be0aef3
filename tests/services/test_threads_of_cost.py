"""Real threads about what capturing costs and what of it is used; each test names its thread."""

from __future__ import annotations

import numpy as np
import pytest

from services.capture.actor import events
from services.capture.readings import Progress
from services.capture.spec import MeasureSpec
from services.catalog import find_profile
from tuner.audit import audit
from tuner.budget import Budget
from tuner.engines.registry import engine
from tuner.front import best_front
from tuner.scorecard import score_plain
from workloads.histogram import StepHistogram
from workloads.traces.records import StepTrace

LADDER = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))


def steps(*sizes: int) -> StepTrace:
    count = len(sizes)
    unknown = np.full(count, np.nan)
    return StepTrace(
        size=np.array(sizes),
        steps=np.full(count, 1000),
        family_index=np.zeros(count, np.int8),
        start_s=unknown.copy(),
        step_ms=unknown.copy(),
        kv_tokens=unknown.copy(),
        padded_size=np.zeros(count, np.int64),
        fallback=np.full(count, -1, np.int8),
        families=("decode_full",),
        units=("requests",),
        origin="census",
    )


def test_case_32_graphs_that_no_step_ever_used_are_listed() -> None:
    """vllm#20098, #22897, #23184: 67 graphs take more than 10 s at start, most are never used."""
    vllm = engine("vllm@0.33.0")
    report = audit(steps(1, 3, 7, 30), None, vllm, vllm.options({"max_num_seqs": "512"}), {"capture": LADDER})
    used = {1, 4, 8, 32}
    assert set(report.never_used) == set(LADDER) - used


def test_case_45_decode_batches_above_the_graphs_are_warned_of() -> None:
    """vllm#51509: nothing says that decode batches exceed the largest graph."""
    sglang = engine("sglang@0.5.23")
    options = sglang.options({"max_running_requests": "256"})
    report = audit(steps(10, 40, 90, 120), None, sglang, options, {"decode": (1, 8, 16, 32, 64)})
    assert report.above_ceiling == pytest.approx(0.5)
    assert {"EAGER_FEEDBACK", "TOP_NOT_COVERED"} <= {warning.code for warning in report.warnings}


def test_case_50_sizes_are_captured_largest_first() -> None:
    """TensorRT-LLM#3116: capturing upwards inflates the shared pool, downwards reuses it."""
    spec = MeasureSpec(model="tiny-llama", sizes=(1, 2, 4, 8), starts=1, repeats=1, iterations=1, device="cpu")
    order = [
        event.size
        for event in events(spec, 0)
        if isinstance(event, Progress) and event.phase == "capture" and event.seconds is not None
    ]
    assert order == [8, 4, 2, 1]


def test_case_51_what_a_graph_costs_is_the_models_own() -> None:
    """TensorRT-LLM#3362: a hard-coded 60 MB a graph was questioned in review."""
    histogram = {"decode_full": StepHistogram.of_counts({1: 1.0, 100: 1.0})}
    costs = [
        score_plain(LADDER, histogram, find_profile(name), reachable=512).memory_mib
        for name in ("h200-llama-3.1-8b", "h200-qwen3-0.6b")
    ]
    assert None not in costs and costs[0] != costs[1]
    assert all(cost is not None and cost / len(LADDER) < 20 for cost in costs)


def test_case_52_capture_time_can_be_bounded() -> None:
    """TensorRT-LLM#7440: capturing is slow, asks for less of it."""
    histogram = StepHistogram.of_counts({size: 100.0 for size in range(1, 400, 3)})
    profile = find_profile("h200-llama-3.1-8b")
    front = best_front(histogram, profile, "decode_full", budget=Budget(max_capture_s=0.9))
    assert front.optimal
    assert all(point.capture_s is not None and point.capture_s <= 0.9 for point in front.points)
    free = best_front(histogram, profile, "decode_full", budget=Budget())
    assert free.points[-1].capture_s is not None and free.points[-1].capture_s > 0.9
