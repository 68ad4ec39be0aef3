"""What a real row and a real KV token cost in an engine: step = g(bucket) + a x KV tokens + h x rows, fitted jointly.

An engine cannot be asked for rows of length one, so g is not read but fitted with the rest; buckets are told apart by
steps that fill them to different degrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workloads.arrays import F64
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
        limited: the prices were scaled down, because noise had made them larger than they can be.
    """

    attention_ms_per_mtoken: float
    row_ms: float
    bucket_ms: Mapping[int, float]
    median_residual_share: float
    worst_residual_share: float
    limited: bool = False

    def extra_ms(self, rows: int, context_tokens: float) -> float:
        """What `rows` real rows at that context add to g."""
        return rows * (self.attention_ms_per_mtoken * 1e-6 * context_tokens + self.row_ms)

    def within(self, step_ms: Mapping[int, float], context_tokens: float) -> StepTerms:
        """Prices that leave a tenth of every full step to its bucket, scaled down where they do not.

        Args:
            step_ms: measured step of full buckets at `context_tokens`.
        """
        most = max((self.extra_ms(size, context_tokens) / ms for size, ms in step_ms.items()), default=0.0)
        if most <= _MOST_PRICED_SHARE:
            return self
        scale = _MOST_PRICED_SHARE / most
        attention, row = scale * self.attention_ms_per_mtoken, scale * self.row_ms
        return replace(self, attention_ms_per_mtoken=attention, row_ms=row, limited=True)


def fit_terms(points: Sequence[TermPoint]) -> StepTerms:
    """Least squares of residuals as shares of the measured step.

    Raises:
        MeasurementFailed: fewer than three contexts, or no bucket was filled to two degrees.
    """
    fills = {(point.bucket, point.rows) for point in points}
    buckets = sorted({point.bucket for point in points})
    if len({point.context_tokens for point in points}) < 3 or len(fills) == len(buckets):
        raise MeasurementFailed("the price of real rows and KV tokens needs three contexts and two fills of a bucket")
    step_ms = np.array([point.step_ms for point in points])
    one_hot = np.array([[float(point.bucket == bucket) for bucket in buckets] for point in points])
    prices = np.array([[point.rows * point.context_tokens * 1e-6, float(point.rows)] for point in points])
    used, solution = _best(one_hot / step_ms[:, None], prices / step_ms[:, None])
    columns = np.column_stack((one_hot, prices[:, used]))
    residual: F64 = np.abs(columns @ solution / step_ms - 1.0)
    terms = dict(zip(used, solution[len(buckets) :], strict=True))
    return StepTerms(
        attention_ms_per_mtoken=float(terms.get(0, 0.0)),
        row_ms=float(terms.get(1, 0.0)),
        bucket_ms={bucket: float(ms) for bucket, ms in zip(buckets, solution, strict=False)},
        median_residual_share=float(np.median(residual)),
        worst_residual_share=float(residual.max()),
    )


def _best(one_hot: F64, prices: F64) -> tuple[list[int], F64]:
    """The choice of price columns with the least loss whose coefficients are not negative: which, and all of them."""
    wanted = np.ones(len(one_hot))
    chosen: tuple[float, list[int], F64] | None = None
    for used in ([0, 1], [0], [1], []):
        columns = np.column_stack((one_hot, prices[:, used]))
        solution: F64 = np.asarray(np.linalg.lstsq(columns, wanted, rcond=None)[0], dtype=np.float64)
        loss = float(np.square(columns @ solution - wanted).sum())
        if np.all(solution[one_hot.shape[1] :] >= 0) and (chosen is None or loss < chosen[0]):
            chosen = (loss, used, solution)
    assert chosen is not None  # the empty choice is always admitted
    return chosen[1], chosen[2]
