"""The step model on readings of a real engine: what is fitted on some lists predicts the padded steps of others."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from services.capture.probes.step_terms import StepTerms, TermPoint, fit_terms
from tests.services.capture.probes.virtual import WaveCosts

PRICED_KV_TOKENS = 200_000
RECORDED = json.loads((Path(__file__).parent / "h200_llama_steps.json").read_text())
POINTS: Mapping[str, list[TermPoint]] = {
    name: [TermPoint(*point) for point in points] for name, points in RECORDED["readings"].items()
}


def fitted(*names: str) -> StepTerms:
    points = [point for name in names for point in POINTS[name]]
    return fit_terms([point for point in points if point.rows * point.context_tokens < PRICED_KV_TOKENS])


def measured_ms(*names: str) -> dict[TermPoint, float]:
    """Mean over starts of every padded step."""
    readings: dict[tuple[int, int, int], list[float]] = {}
    for point in (point for name in names for point in POINTS[name] if point.rows < point.bucket):
        readings.setdefault((point.bucket, point.rows, point.context_tokens), []).append(point.step_ms)
    return {TermPoint(*case, 0.0): statistics.fmean(values) for case, values in readings.items()}


def errors(predicted: Iterable[float], measured: Iterable[float]) -> list[float]:
    return [abs(of / against - 1) for of, against in zip(predicted, measured, strict=True)]


def test_padded_steps_of_two_lists_are_predicted_by_a_third() -> None:
    terms, measured = fitted("steps", "profile", "tuned"), measured_ms("default", "powers of two")
    found = [terms.bucket_ms[p.bucket] + terms.extra_ms(p.rows, p.context_tokens) for p in measured]
    off = errors(found, measured.values())
    assert len(off) == 12 and statistics.median(off) < 0.015 and max(off) < 0.04


def test_with_the_price_of_real_rows_buckets_hardly_fall() -> None:
    """From 20 on: no recorded step has fewer than 17 rows in these buckets, so none compares them with those below."""
    g_ms = fitted("steps", "profile", "default", "tuned", "powers of two").bucket_ms
    sizes = (20, 24, 32, 40, 48, 64)
    for at, size in enumerate(sizes):
        assert g_ms[size] > 0.97 * max(g_ms[below] for below in sizes[: at + 1])
    assert g_ms[64] > 1.025 * g_ms[24]  # what the list with a gap from 16 to 64 paid


def test_the_computed_engine_has_the_waves_of_this_one() -> None:
    """One g a bucket and waves of 16 rows, nothing else: within 3 % of 19 in 20 steps of every list."""
    waves = WaveCosts(attention_ms_per_mtoken=30.0, wave_rows=16)
    points = [p for name in ("default", "tuned", "powers of two") for p in POINTS[name]]
    g_ms: dict[int, list[float]] = {}
    for point in points:
        g_ms.setdefault(point.bucket, []).append(point.step_ms - waves.attention_ms(point.rows, point.context_tokens))
    found = [
        statistics.fmean(g_ms[point.bucket]) + waves.attention_ms(point.rows, point.context_tokens) for point in points
    ]
    off = errors(found, [point.step_ms for point in points])
    assert statistics.median(off) < 0.01 and statistics.quantiles(off, n=20)[-1] < 0.03


@pytest.mark.parametrize("name", ["device", "engine", "model", "date", "how"])
def test_the_readings_say_where_they_are_from(name: str) -> None:
    assert RECORDED[name]
