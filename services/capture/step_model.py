"""The step model: step = g(bucket) + a x real KV tokens + h x real rows + C(real rows) + the wait for the longest row,
fitted on steps with context.

Real rows of a mixture of experts choose different experts, and padded rows are all alike and choose the same few: a
bucket with few real rows reads fewer weights than a full one. C is that; dense models have none. Padded rows crowd on
these few experts, so C falls again where a large bucket is less and less padded. A full bucket of length one holds C of
its own rows, so its g is what is left of it without C.

g is the curve of length-one steps, less C, plus a constant: what any real context costs at any bucket (more than one
page to read, rows split over the GPU and merged again), and what steps of length one never show.

What flashinfer's paged decode does, and which term takes it: the KV cache is streamed at memory bandwidth (a). Where a
bucket has fewer (row, KV head) pairs than the GPU has places for them, rows are split and merged: that costs about the
same whatever the rows are (the constant). Above, a row is one stream a head, and the step also waits for its longest
row: time that follows the context and not the KV tokens (`LongestRow`; the kernel says from how many rows on).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.capture.readings import StepModel, StepModelPoint
from services.capture.terms_fit import bends, least_squares, slopes
from tuner.longest_row import NO_WAIT, LongestRow
from tuner.row_curve import NO_CURVE, RowCurve
from workloads.arrays import F64, I64

BUCKET_PARTS = (1, 4, 16)
"""Buckets of a context: the largest, and these parts of it. Steps of every scale then weigh alike; the largest alone
would fit the price of a token and leave the constant, which is most of a small step's context, to chance."""

PADDING_ROWS = 1
"""Padded rows are all alike: together they choose the experts of one more row."""

_POINTS_PER_OCTAVE = 4
CURVE_FILLS = 4
"""Degrees to which a bucket is filled at one context, from which on they bend a curve over rows."""


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


def curve_point(points: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The one of `plan_points` to be filled to many degrees (`fills_of`): at the shortest context, which keeps
    attention out of it, the second largest bucket, which has rows for every expert. None without points."""
    if not points:
        return None
    shortest = min(context for context, _ in points)
    buckets = sorted((bucket for context, bucket in points if context == shortest), reverse=True)
    return shortest, buckets[min(1, len(buckets) - 1)]


def fills_of(bucket: int) -> tuple[int, ...]:
    """1, 2, 3, 4, 6, 8, 12, ... below `bucket`, and `bucket`: powers of two, and halfway between."""
    powers = [2**i for i in range((bucket - 1).bit_length())]
    between = [3 * power // 2 for power in powers if power > 1 and 3 * power // 2 < bucket]
    return tuple(sorted({*powers, *between, bucket}))


def _nearest(sizes: Sequence[int], wanted: float) -> int:
    return min(sizes, key=lambda size: abs(size - wanted))


def fit(readings: Sequence[ContextReading], unsplit_rows: int | None = None) -> StepModel:
    """Least squares for the constant, a, h and the wait, none below 0, and the curve over rows where a bucket was
    filled to enough degrees, over residuals as shares of the measured step: what a promise of some per cent is about,
    and what keeps the longest steps from deciding alone.

    Args:
        unsplit_rows: as `DecodeAttention.unsplit_rows`; None fits no wait.
    """
    mtokens = np.array([one.rows * one.context_tokens * 1e-6 for one in readings])
    rows = np.array([float(one.rows) for one in readings])
    buckets = np.array([float(one.bucket) for one in readings])
    step_ms = np.array([one.step_ms for one in readings])
    extra_ms = step_ms - np.array([one.alone_ms for one in readings])
    prices = np.column_stack((np.ones(len(rows)), mtokens, rows))
    if unsplit_rows is not None:
        unit = LongestRow(1.0, unsplit_rows)
        contexts = np.array([float(one.context_tokens) for one in readings])
        prices = np.column_stack((prices, unit.ms(buckets.astype(np.int64), contexts)))
    knots = _curve_rows(readings)
    # A full bucket of length one holds the curve at its own number of rows already.
    seen = rows + PADDING_ROWS * (rows < buckets)
    at = np.log(knots.astype(np.float64))
    curved = bends(np.log(seen), at) - bends(np.log(buckets), at) if len(knots) else np.zeros((len(rows), 0))
    smooth = slopes(at) if len(knots) else None
    share = step_ms[:, None]
    found, terms = least_squares(curved / share, prices / share, extra_ms / step_ms, smooth)
    residual_ms = extra_ms - curved @ found - prices @ terms
    points = tuple(
        StepModelPoint(one.bucket, one.rows, one.context_tokens, one.step_ms, float(extra), float(residual))
        for one, extra, residual in zip(readings, extra_ms, residual_ms, strict=True)
    )
    constant_ms, a, h, *wait = (float(term) for term in terms)
    return StepModel(
        attention_ms_per_mtoken=a,
        row_ms=h,
        constant_ms=constant_ms,
        points=points,
        row_curve=_curve(knots, found),
        longest_row=NO_WAIT if unsplit_rows is None else LongestRow.of(wait[0], unsplit_rows, 0.0),
    )


def _curve_rows(readings: Sequence[ContextReading]) -> I64:
    """Rows, padding counted, of the buckets that were filled to `CURVE_FILLS` degrees or more at one context, and of
    the larger ones at the same context; empty where no bucket was."""
    filled: dict[tuple[int, int], set[int]] = {}
    for one in readings:
        seen = one.rows + PADDING_ROWS * (one.rows < one.bucket)
        filled.setdefault((one.bucket, one.context_tokens), set()).add(seen)
    many = {at: rows for at, rows in filled.items() if len(rows) >= CURVE_FILLS}
    beside = (
        rows for at, rows in filled.items() if any(at[1] == context and at[0] > bucket for bucket, context in many)
    )
    return np.array(sorted(set().union(*many.values(), *beside)), dtype=np.int64)


def _curve(knots: I64, found: F64) -> RowCurve:
    """From values above the first knot's; only differences were read, and the lowest value is 0. Between knots it is
    linear in the logarithm of rows, as choosing among so many experts nearly is; a `RowCurve` is linear in rows, so it
    gets some points between."""
    if not len(knots):
        return NO_CURVE
    ms = np.concatenate(([0.0], found))
    octaves = np.log2(knots[-1] / knots[0])
    between = knots[0] * 2.0 ** np.arange(0.0, octaves, 1 / _POINTS_PER_OCTAVE)
    rows = np.union1d(knots, np.rint(between).astype(np.int64))
    rows_ms = np.interp(np.log(rows), np.log(knots), ms - ms.min())
    return RowCurve(rows, rows_ms, PADDING_ROWS)
