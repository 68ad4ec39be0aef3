"""The attention and row terms are recovered from steps that contain them, and never come out negative."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.capture.spec import DECODE_CONTEXTS
from services.capture.step_model import ContextReading, curve_point, fills_of, fit, plan_points
from tuner.probe_plan import first_probes

BUCKETS = {8: 6.5, 64: 7.5, 232: 11.0}
POINTS = [(bucket, rows, context) for bucket in BUCKETS for rows in (bucket, bucket // 2) for context in (512, 2048)]


def _reading(bucket: int, rows: int, context: int, extra_ms: float) -> ContextReading:
    return ContextReading(bucket, rows, context, BUCKETS[bucket] + extra_ms, BUCKETS[bucket])


@given(st.floats(0, 2), st.floats(0, 50), st.floats(0, 0.02))
def test_exact_steps_give_their_terms_back(constant: float, a: float, h: float) -> None:
    model = fit([_reading(*at, constant + a * at[1] * at[2] * 1e-6 + h * at[1]) for at in POINTS])
    assert model.attention_ms_per_mtoken == pytest.approx(a, abs=1e-6)
    assert model.row_ms == pytest.approx(h, abs=1e-6)
    assert model.constant_ms == pytest.approx(constant, abs=1e-5)
    assert model.median_residual_share <= model.worst_residual_share < 1e-6


@given(st.lists(st.floats(-3, 3), min_size=len(POINTS), max_size=len(POINTS)))
def test_no_noise_makes_a_term_negative_and_no_other_pair_is_better(noise: list[float]) -> None:
    measured = [_reading(*at, extra) for at, extra in zip(POINTS, noise, strict=True)]
    model = fit(measured)
    assert model.attention_ms_per_mtoken >= 0 and model.row_ms >= 0 and model.constant_ms >= 0
    mtokens = np.array([n * c * 1e-6 for _, n, c in POINTS])
    rows = np.array([float(n) for _, n, _ in POINTS])
    step_ms = np.array([one.step_ms for one in measured])

    def loss(constant: float, a: float, h: float) -> float:
        return float(np.square((np.array(noise) - constant - a * mtokens - h * rows) / step_ms).sum())

    best = loss(model.constant_ms, model.attention_ms_per_mtoken, model.row_ms)
    assert best == pytest.approx(sum((point.residual_ms / point.step_ms) ** 2 for point in model.points), abs=1e-9)
    for constant in np.linspace(0, 3, 5):
        for a in np.linspace(0, 20, 9):
            for h in np.linspace(0, 0.05, 9):
                assert best <= loss(constant, a, h) + 1e-9


def test_a_drift_between_phases_of_a_start_is_no_price() -> None:
    """Every step 2 % slower than when the curve was read: the bucket alone, read in the same rounds, is slower too."""

    def drifted(bucket: int, rows: int, context: int) -> ContextReading:
        alone_ms, extra_ms = BUCKETS[bucket], 27e-6 * rows * context
        return ContextReading(bucket, rows, context, 1.02 * (alone_ms + extra_ms), 1.02 * alone_ms)

    model = fit([drifted(*at) for at in POINTS])
    assert model.constant_ms == pytest.approx(0, abs=1e-6)
    assert model.attention_ms_per_mtoken == pytest.approx(1.02 * 27)


@pytest.mark.parametrize(("constant", "a", "longest"), [(0.45, 27.0, 0.0), (0.48, 26.6, 0.26), (0.43, 23.5, 0.53)])
def test_default_points_predict_recorded_steps_that_wait_for_their_longest_row(
    constant: float, a: float, longest: float, repository: Path
) -> None:
    """Steps of a paged kernel that streams a row a head once there is a row for every place on the GPU: ms for a
    million tokens, and for a thousand tokens of context. Without knowing from how many rows on, the other terms still
    get near."""

    def extra_ms(bucket: int, rows: float, tokens: float) -> float:
        split = min(1.0, bucket / 33)
        return constant + a * tokens * 1e-6 + longest * split * tokens / rows * 1e-3

    def g(bucket: int) -> float:
        return 5.9 + 0.0235 * bucket

    sizes = first_probes(512)
    points = plan_points(sizes, DECODE_CONTEXTS, bytes_per_token=131072, budget_bytes=60 * 2**30)
    readings = [
        ContextReading(bucket, rows, context, g(bucket) + extra_ms(bucket, rows, rows * context), g(bucket))
        for context, bucket in points
        for rows in (bucket, bucket // 2)
    ]
    model, waiting = fit(readings), fit(readings, unsplit_rows=33)
    assert model.trusted
    assert waiting.worst_residual_share < 1e-9 and waiting.attention_ms_per_mtoken == pytest.approx(a)
    assert waiting.longest_row.ms_per_ktoken == pytest.approx(longest, abs=1e-9)
    windows = json.loads((repository / "benchmarks" / "decode_windows.json").read_text())["windows"]
    errors = []
    for steps in windows.values():
        true_ms, predicted_ms = 0.0, 0.0
        for rows, tokens, weight in steps:
            bucket = min(size for size in sizes if size >= rows)
            modelled = model.constant_ms + model.attention_ms_per_mtoken * 1e-6 * tokens + model.row_ms * rows
            true_ms += weight * (g(bucket) + extra_ms(bucket, rows, tokens))
            predicted_ms += weight * (g(bucket) + modelled)
        errors.append(abs(predicted_ms / true_ms - 1))
    assert np.median(errors) < 0.02 and max(errors) < 0.05


def test_context_points_fit_their_memory() -> None:
    points = plan_points((1, 8, 64, 512), (512, 8192, 10**9), bytes_per_token=131072, budget_bytes=60 * 2**30)
    assert points == [(512, 512), (512, 64), (512, 8), (8192, 8), (8192, 1)]
    assert plan_points((8,), (512,), bytes_per_token=131072, budget_bytes=1) == []


def experts_ms(rows: int) -> float:
    """Weights of the experts that so many rows choose, 8 of 128 each."""
    return 14.0 * (1 - (1 - 8 / 128) ** rows)


def test_rows_that_choose_other_experts_are_told_apart_from_padding() -> None:
    """The other buckets are filled full and half; one to powers of two and between. Padded rows choose experts as
    one more row would, and crowd on them."""

    def reading(bucket: int, rows: int, context: int) -> ContextReading:
        dense_ms, extra_ms = 9 + 0.01 * bucket, 0.2 + 30e-6 * rows * context + 0.008 * (bucket - rows)
        weights_ms = experts_ms(rows + (rows < bucket))
        return ContextReading(bucket, rows, context, dense_ms + weights_ms + extra_ms, dense_ms + experts_ms(bucket))

    points = plan_points(first_probes(512), DECODE_CONTEXTS, bytes_per_token=98304, budget_bytes=60 * 2**30)
    halves = [reading(bucket, rows, context) for context, bucket in points for rows in (bucket, bucket // 2)]
    where = curve_point(points)
    assert where == (min(DECODE_CONTEXTS), 128)
    many = [reading(where[1], rows, where[0]) for rows in fills_of(where[1])]
    line, curved = fit(halves), fit([*halves, *many])
    assert len(line.row_curve.rows) == 0 and not line.trusted
    assert {2, 5, 33, 128, 257, 512} <= set(curved.row_curve.rows.tolist()) and curved.trusted
    assert curved.p90_residual_share < 0.02
    assert curved.attention_ms_per_mtoken == pytest.approx(30.0, rel=0.02)
    for bucket, rows in ((128, 1), (128, 8), (128, 64), (512, 256), (512, 64)):
        full, filled = curved.row_curve.in_bucket(np.array([bucket, rows]), np.array([bucket, bucket]))
        fewer_ms = experts_ms(bucket) - experts_ms(rows + 1) - 0.008 * (bucket - rows)
        assert full - filled == pytest.approx(fewer_ms, abs=0.25)


def test_a_dense_model_filled_to_many_degrees_has_a_flat_curve() -> None:
    readings = [_reading(*at, 0.3 + 25e-6 * at[1] * at[2]) for at in [*POINTS, *((64, n, 512) for n in (1, 2, 4, 16))]]
    model = fit(readings)
    assert model.row_curve.rows_ms == pytest.approx(np.zeros(len(model.row_curve.rows)), abs=1e-6)
    assert model.attention_ms_per_mtoken == pytest.approx(25.0, abs=1e-6)


def test_fills_end_with_the_bucket() -> None:
    assert [fills_of(bucket) for bucket in (1, 2, 6, 8)] == [(1,), (1, 2), (1, 2, 3, 4, 6), (1, 2, 3, 4, 6, 8)]
    assert curve_point([]) is None and curve_point([(512, 8)]) == (512, 8)
