"""The step model: step = g(bucket) + a x real KV tokens + h x real rows, fitted on steps with real context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from services.capture.readings import StepModel, StepModelPoint
from workloads.arrays import F64


def plan_points(
    sizes: Sequence[int], contexts: Sequence[int], *, bytes_per_token: int, budget_bytes: float
) -> list[tuple[int, int]]:
    """(context_tokens, bucket) pairs to measure: per context the largest size whose KV cache fits, and the sizes
    nearest to a third and a ninth of it. Contexts that do not fit even at the smallest size are left out."""
    points = []
    for context in contexts:
        fitting = [size for size in sizes if size * (context + 16) * bytes_per_token <= budget_bytes]
        if not fitting:
            continue
        largest = max(fitting)
        buckets = dict.fromkeys(_nearest(fitting, largest / part) for part in (1, 3, 9))
        points += [(context, size) for size in buckets]
    return points


def _nearest(sizes: Sequence[int], wanted: float) -> int:
    return min(sizes, key=lambda size: abs(size - wanted))


def fit(bucket_ms: Mapping[int, float], measured: Sequence[tuple[int, int, int, float]]) -> StepModel:
    """Least squares for a and h, neither below 0, over residuals as shares of the measured step: what a promise of
    some per cent is about, and what keeps the longest steps from deciding alone.

    Args:
        bucket_ms: g of every bucket concerned.
        measured: (bucket, real rows, context tokens per row, step ms).
    """
    mtokens = np.array([rows * context * 1e-6 for _, rows, context, _ in measured])
    rows = np.array([float(rows) for _, rows, _, _ in measured])
    extra_ms = np.array([ms - bucket_ms[bucket] for bucket, _, _, ms in measured])
    step_ms = np.array([ms for *_, ms in measured])
    a, h = _not_negative(np.column_stack((mtokens, rows)) / step_ms[:, None], extra_ms / step_ms)
    residual_ms = extra_ms - a * mtokens - h * rows
    points = tuple(
        StepModelPoint(bucket, n, context, ms, float(extra), float(residual))
        for (bucket, n, context, ms), extra, residual in zip(measured, extra_ms, residual_ms, strict=True)
    )
    return StepModel(attention_ms_per_mtoken=a, row_ms=h, points=points)


def _not_negative(columns: F64, target: F64) -> tuple[float, float]:
    """Least squares with two coefficients >= 0: the free optimum, or the better of the two edges."""
    free = np.linalg.lstsq(columns, target, rcond=None)[0]
    if np.all(free >= 0):
        return float(free[0]), float(free[1])
    edges = []
    for index in (0, 1):
        column = columns[:, index]
        value = max(0.0, float(column @ target) / float(column @ column))
        edge = [0.0, 0.0]
        edge[index] = value
        edges.append((float(np.square(target - value * column).sum()), edge))
    best = min(edges)[1]
    return best[0], best[1]
