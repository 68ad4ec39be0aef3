"""GPU-busy time, what it says of a size, and where the profile keeps the splits."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from services.capture.gpu_busy import busy_ms, spread_out, union
from services.capture.readings import BusyReading, StepModel, StepModelPoint

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda span: (span[0], span[0] + span[1])))


@given(SPANS)
def test_overlapping_kernels_count_once(spans: list[tuple[int, int]]) -> None:
    covered = {moment for begin, end in spans for moment in range(begin, end)}
    assert union([(float(begin), float(end)) for begin, end in sorted(spans)]) == len(covered)


@given(st.lists(st.integers(1, 2000), min_size=1, unique=True).map(sorted), st.integers(2, 20))
def test_a_few_sizes_stand_for_all_of_them(sizes: list[int], most: int) -> None:
    chosen = spread_out(sizes, most)
    assert set(chosen) <= set(sizes) and len(chosen) <= most
    assert {chosen[0], chosen[-1]} == {sizes[0], sizes[-1]}


def test_a_cpu_has_no_gpu_to_be_busy() -> None:
    assert busy_ms(lambda: None, torch.device("cpu")) is None


def test_a_step_whose_gpu_idles_is_launch_bound() -> None:
    assert BusyReading(8, 6.2, 6.3, 6.3, 14.0).launch_bound
    assert not BusyReading(512, 17.9, 18.5, 18.0, 19.5).launch_bound


def test_a_step_model_that_explains_little_is_not_trusted() -> None:
    def model(residual_ms: float) -> StepModel:
        return StepModel(1.0, 0.0, tuple(StepModelPoint(8, 8, 512, 10.0, 1.0, residual_ms) for _ in range(3)))

    assert model(0.4).trusted and not model(-0.6).trusted
    few_far_off = [0.1] * 8 + [2.0] * 2  # of ten points of 10 ms
    points = tuple(StepModelPoint(8, 8, 512, 10.0, 1.0, residual_ms) for residual_ms in few_far_off)
    assert StepModel(1.0, 0.0, points).median_residual_share == 0.01 and not StepModel(1.0, 0.0, points).trusted
