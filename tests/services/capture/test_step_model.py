"""The attention and row terms are recovered from steps that contain them, and never come out negative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.capture.step_model import fit, plan_points

BUCKETS = {8: 6.5, 64: 7.5, 232: 11.0}
POINTS = [(bucket, rows, context) for bucket in BUCKETS for rows in (bucket, bucket // 2) for context in (512, 2048)]


@given(st.floats(0, 2), st.floats(0, 50), st.floats(0, 0.02))
def test_exact_steps_give_their_terms_back(constant: float, a: float, h: float) -> None:
    measured = [(b, n, c, BUCKETS[b] + constant + a * n * c * 1e-6 + h * n) for b, n, c in POINTS]
    model = fit(BUCKETS, measured)
    assert model.attention_ms_per_mtoken == pytest.approx(a, abs=1e-6)
    assert model.row_ms == pytest.approx(h, abs=1e-6)
    assert model.constant_ms == pytest.approx(constant, abs=1e-5)
    assert model.median_residual_share <= model.worst_residual_share < 1e-6


@given(st.lists(st.floats(-3, 3), min_size=len(POINTS), max_size=len(POINTS)))
def test_no_noise_makes_a_term_negative_and_no_other_pair_is_better(noise: list[float]) -> None:
    measured = [(b, n, c, BUCKETS[b] + e) for (b, n, c), e in zip(POINTS, noise, strict=True)]
    model = fit(BUCKETS, measured)
    assert model.attention_ms_per_mtoken >= 0 and model.row_ms >= 0 and model.constant_ms >= 0
    mtokens = np.array([n * c * 1e-6 for _, n, c in POINTS])
    rows = np.array([float(n) for _, n, _ in POINTS])
    step_ms = np.array([ms for *_, ms in measured])

    def loss(constant: float, a: float, h: float) -> float:
        return float(np.square((np.array(noise) - constant - a * mtokens - h * rows) / step_ms).sum())

    best = loss(model.constant_ms, model.attention_ms_per_mtoken, model.row_ms)
    assert best == pytest.approx(sum((point.residual_ms / point.step_ms) ** 2 for point in model.points), abs=1e-9)
    for constant in np.linspace(0, 3, 5):
        for a in np.linspace(0, 20, 9):
            for h in np.linspace(0, 0.05, 9):
                assert best <= loss(constant, a, h) + 1e-9


def test_context_points_fit_their_memory() -> None:
    points = plan_points((1, 8, 64, 512), (512, 8192, 10**9), bytes_per_token=131072, budget_bytes=60 * 2**30)
    assert points == [(512, 512), (512, 64), (8192, 8), (8192, 1)]
    assert plan_points((8,), (512,), bytes_per_token=131072, budget_bytes=1) == []
