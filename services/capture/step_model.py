"""The step model: step = g(bucket) + a x real KV tokens + h x real rows, fitted on steps with real context.

g is the curve of length-one steps plus a constant: what any real context costs at any bucket (more than one page to
read, rows split over the GPU and merged again), and what steps of length one never show.
"""

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
    """Least squares for the constant, a and h, none below 0, over residuals as shares of the measured step: what a
    promise of some per cent is about, and what keeps the longest steps from deciding alone.

    Args:
        bucket_ms: length-one step of every bucket concerned.
        measured: (bucket, real rows, context tokens per row, step ms).
    """
    mtokens = np.array([rows * context * 1e-6 for _, rows, context, _ in measured])
    rows = np.array([float(rows) for _, rows, _, _ in measured])
    extra_ms = np.array([ms - bucket_ms[bucket] for bucket, _, _, ms in measured])
    step_ms = np.array([ms for *_, ms in measured])
    columns = np.column_stack((np.ones(len(rows)), mtokens, rows))
    terms = _not_negative(columns / step_ms[:, None], extra_ms / step_ms)
    residual_ms = extra_ms - columns @ terms
    points = tuple(
        StepModelPoint(bucket, n, context, ms, float(extra), float(residual))
        for (bucket, n, context, ms), extra, residual in zip(measured, extra_ms, residual_ms, strict=True)
    )
    constant_ms, a, h = (float(term) for term in terms)
    return StepModel(attention_ms_per_mtoken=a, row_ms=h, constant_ms=constant_ms, points=points)


def _not_negative(columns: F64, target: F64) -> F64:
    """Least squares with coefficients >= 0: the best of the free optima over every choice of columns."""
    count = columns.shape[1]
    best, least = np.zeros(count), float(np.square(target).sum())
    for chosen in range(1, 2**count):
        keep = [i for i in range(count) if chosen >> i & 1]
        some = np.linalg.lstsq(columns[:, keep], target, rcond=None)[0]
        loss = float(np.square(columns[:, keep] @ some - target).sum())
        if np.all(some >= 0) and loss < least:
            best, least = np.zeros(count), loss
            best[keep] = some
    return best
