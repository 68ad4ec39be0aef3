"""What real rows and real KV tokens cost in an engine: step = g(bucket) + a x KV tokens + H(rows), fitted jointly.

An engine cannot be asked for rows of length one, so g is not read but fitted with the rest. H is a line h x rows and a
curve beside it, linear between the rows that were measured: attention runs in waves, and a step jumps where one is
full. Read full, each bucket has its own number of rows, and such a jump looks like one of the bucket; so rows are told
apart in one bucket that holds them all. Full steps add nothing to that: each brings a g of its own, and can say neither
a nor H.

A wave lasts as long as its rows are, so what a wave that is not full costs grows with the context. The curve has it at
the middle of the contexts that were measured; what it spreads around them is in the residuals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from services.capture.terms_fit import bends, least_squares, slopes
from tuner.row_curve import NO_CURVE, RowCurve
from workloads.arrays import F64, I64
from workloads.errors import MeasurementFailed

_MOST_PRICED_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class TermPoint:
    """One measured step."""

    bucket: int
    rows: int
    context_tokens: int
    step_ms: float


@dataclass(frozen=True, slots=True)
class StepTerms:
    """The fit; residuals are shares of the measured step.

    Attributes:
        attention_ms_per_mtoken, row_ms: a and h, never below 0.
        bucket_ms: g of every bucket that took part.
        row_curve: H - h x rows; H is never below 0.
        limited: the prices were scaled down, because noise had made them larger than they can be.
    """

    attention_ms_per_mtoken: float
    row_ms: float
    bucket_ms: Mapping[int, float]
    median_residual_share: float
    worst_residual_share: float
    row_curve: RowCurve = NO_CURVE
    limited: bool = False

    def extra_ms(self, rows: int, context_tokens: float) -> float:
        """What `rows` real rows at that context add to g."""
        each_ms = self.attention_ms_per_mtoken * 1e-6 * context_tokens + self.row_ms
        return rows * each_ms + float(self.row_curve.at(np.array([rows]))[0])

    def rounded(self) -> StepTerms:
        """To a nanosecond a row, so that the same readings make the same file on every machine."""
        return replace(
            self,
            attention_ms_per_mtoken=round(self.attention_ms_per_mtoken, 6),
            row_ms=round(self.row_ms, 6),
            row_curve=replace(self.row_curve, rows_ms=np.round(self.row_curve.rows_ms, 6)),
        )

    def within(self, step_ms: Mapping[int, float], context_tokens: float) -> StepTerms:
        """Prices that leave a tenth of every full step to its bucket, scaled down where they do not.

        Args:
            step_ms: measured step of full buckets at `context_tokens`.
        """
        most = max((self.extra_ms(size, context_tokens) / ms for size, ms in step_ms.items()), default=0.0)
        if most <= _MOST_PRICED_SHARE:
            return self
        scale = _MOST_PRICED_SHARE / most
        return replace(
            self,
            attention_ms_per_mtoken=scale * self.attention_ms_per_mtoken,
            row_ms=scale * self.row_ms,
            row_curve=self.row_curve.scaled(scale),
            limited=True,
        )


def fit_terms(points: Sequence[TermPoint]) -> StepTerms:
    """Least squares of residuals as shares of the measured step.

    What is common to all numbers of rows is the bucket's: the curve is 0 at the fewest rows that share a bucket with
    others, or a little more where fewer rows would cost less than nothing. The line goes to the most rows. What no
    reading decides (buckets that have no rows in common) is the bucket's, too.

    Raises:
        MeasurementFailed: fewer than three contexts, or no bucket was filled to two degrees.
    """
    buckets = sorted({point.bucket for point in points})
    knots = _shared_rows(points, buckets)
    if len({point.context_tokens for point in points}) < 3 or len(knots) < 2:
        raise MeasurementFailed("the price of real rows and KV tokens needs three contexts and two fills of a bucket")
    step_ms = np.array([point.step_ms for point in points])
    rows = np.array([point.rows for point in points], dtype=np.float64)
    one_hot = np.array([[float(point.bucket == bucket) for bucket in buckets] for point in points])
    prices = np.array([[point.rows * point.context_tokens * 1e-6, float(point.rows)] for point in points])
    free = np.column_stack((one_hot, bends(rows, knots.astype(np.float64)))) / step_ms[:, None]
    priced = prices / step_ms[:, None]
    smooth = np.column_stack((np.zeros((len(knots) - 1, len(buckets))), slopes(knots.astype(np.float64))))
    found, (attention_ms, row_ms) = least_squares(free, priced, np.ones(len(points)), smooth)
    residual: F64 = np.abs(free @ found + priced @ (attention_ms, row_ms) - 1.0)
    curve_ms = np.concatenate(([0.0], found[len(buckets) :]))
    shift_ms = max(0.0, -float((curve_ms + row_ms * knots).min()))
    return StepTerms(
        attention_ms_per_mtoken=float(attention_ms),
        row_ms=float(row_ms),
        bucket_ms={bucket: float(ms) - shift_ms for bucket, ms in zip(buckets, found, strict=False)},
        median_residual_share=float(np.median(residual)),
        worst_residual_share=float(residual.max()),
        row_curve=RowCurve(knots, curve_ms + shift_ms),
    )


def _shared_rows(points: Sequence[TermPoint], buckets: Sequence[int]) -> I64:
    """Rows of the buckets that were filled to more than one degree."""
    fills = ({point.rows for point in points if point.bucket == bucket} for bucket in buckets)
    return np.array(sorted(set().union(*(rows for rows in fills if len(rows) > 1))), dtype=np.int64)
