"""The step model: step = g(bucket) + a x real KV tokens + h x real rows, fitted on steps with real context.

g is the curve of length-one steps plus a constant: what any real context costs at any bucket (more than one page to
read, rows split over the GPU and merged again), and what steps of length one never show.

What flashinfer's paged decode does, and which term takes it: the KV cache is streamed at memory bandwidth (a). Where a
bucket has fewer (row, KV head) pairs than the GPU has places for them, rows are split and merged: that costs about the
same whatever the rows are (the constant). Above, a row is one stream a head, and the step also waits for its longest
row: time that follows the context and not the KV tokens. No term takes it; points around the usual contexts leave its
mean in the constant, and what it spreads stays in the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.capture.readings import StepModel, StepModelPoint
from workloads.arrays import F64

BUCKET_PARTS = (1, 4, 16)
"""Buckets of a context: the largest, and these parts of it. Steps of every scale then weigh alike; the largest alone
would fit the price of a token and leave the constant, which is most of a small step's context, to chance."""


@dataclass(frozen=True, slots=True)
class ContextReading:
    """A step with `rows` of `bucket` rows real, `context_tokens` each in the mean, and beside it `alone_ms`: the same
    captured bucket full of rows of length one, read in the same rounds, so that no drift between phases of a start
    (clocks, temperature) is taken for a price."""

    bucket: int
    rows: int
    context_tokens: int
    step_ms: float
    alone_ms: float


def plan_points(
    sizes: Sequence[int], contexts: Sequence[int], *, bytes_per_token: int, budget_bytes: float
) -> list[tuple[int, int]]:
    """(context_tokens, bucket) pairs to measure: per context the largest size whose KV cache fits, and the sizes
    nearest to `BUCKET_PARTS` of it. Contexts that do not fit even at the smallest size are left out."""
    points = []
    for context in contexts:
        fitting = [size for size in sizes if size * (context + 16) * bytes_per_token <= budget_bytes]
        if not fitting:
            continue
        largest = max(fitting)
        buckets = dict.fromkeys(_nearest(fitting, largest / part) for part in BUCKET_PARTS)
        points += [(context, size) for size in buckets]
    return points


def _nearest(sizes: Sequence[int], wanted: float) -> int:
    return min(sizes, key=lambda size: abs(size - wanted))


def fit(readings: Sequence[ContextReading]) -> StepModel:
    """Least squares for the constant, a and h, none below 0, over residuals as shares of the measured step: what a
    promise of some per cent is about, and what keeps the longest steps from deciding alone."""
    mtokens = np.array([one.rows * one.context_tokens * 1e-6 for one in readings])
    rows = np.array([float(one.rows) for one in readings])
    step_ms = np.array([one.step_ms for one in readings])
    extra_ms = step_ms - np.array([one.alone_ms for one in readings])
    columns = np.column_stack((np.ones(len(rows)), mtokens, rows))
    terms = _not_negative(columns / step_ms[:, None], extra_ms / step_ms)
    residual_ms = extra_ms - columns @ terms
    points = tuple(
        StepModelPoint(one.bucket, one.rows, one.context_tokens, one.step_ms, float(extra), float(residual))
        for one, extra, residual in zip(readings, extra_ms, residual_ms, strict=True)
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
