"""Drift between two windows of a recording."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.shape import drift
from workloads.traces.records import StepTrace


def recording(sizes: list[int]) -> StepTrace:
    """One decode step of every size, one a second."""
    rows = len(sizes)
    return StepTrace(
        size=np.array(sizes),
        steps=np.ones(rows, dtype=np.int64),
        family_index=np.zeros(rows, dtype=np.int8),
        start_s=np.arange(rows, dtype=np.float64) + 100.0,
        step_ms=np.full(rows, np.nan),
        kv_tokens=np.full(rows, np.nan),
        padded_size=np.zeros(rows, dtype=np.int64),
        fallback=np.full(rows, -1, dtype=np.int8),
        families=("decode_full",),
        units=("requests",),
        origin="census",
    )


SIZES = [1] * 5 + [2] * 3 + [9] * 3
"""Ten seconds from the first step to the last."""


def test_halves_are_the_default() -> None:
    found = drift(recording(SIZES), "decode_full")
    assert found is not None
    assert found.windows_s == ((0.0, 5.0), (5.0, 10.0)) and found.span_s == 10.0
    assert found.steps == (5.0, 6.0) and found.distance == 1.0
    assert found.mean_size == (1.0, pytest.approx(33 / 6)) and found.p99_size == (1.0, 9.0)


def test_windows_may_overlap_and_the_last_step_belongs_to_the_one_that_ends_at_1() -> None:
    found = drift(recording(SIZES), "decode_full", ((0.0, 0.8), (0.5, 1.0)))
    assert found is not None and found.steps == (8.0, 6.0)
    assert found.distance == pytest.approx((abs(5 / 8) + abs(3 / 8 - 3 / 6) + 3 / 6) / 2)
    assert drift(recording(SIZES), "decode_full", ((0.2, 0.6), (0.2, 0.6))).distance == 0.0  # type: ignore[union-attr]


@pytest.mark.parametrize("windows", [((0.31, 0.39), (0.5, 1.0)), ((0.0, 0.5), (0.91, 0.99))])
def test_a_window_without_a_step_has_no_drift(windows: tuple[tuple[float, float], tuple[float, float]]) -> None:
    assert drift(recording(SIZES), "decode_full", windows) is None


def test_a_family_that_is_not_there_has_no_drift() -> None:
    assert drift(recording(SIZES), "draft") is None
