"""What real rows cost beyond a price per row, as a curve.

Attention runs in waves, so a step jumps where a wave is full; and rows of a mixture of experts choose different ones,
of which there are so many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from workloads.arrays import F64, I64, frozen
from workloads.errors import BadInput


@dataclass(frozen=True, slots=True)
class RowCurve:
    """Milliseconds that n real rows add to row_ms x n, at some n; without any, nothing.

    Attributes:
        rows: int64 [K], increasing.
        rows_ms: float64 [K]; below 0 where rows cost less than row_ms each.
        padding_rows: as how many real rows all padded ones of a bucket count; they are alike, and 1 where that matters.
    """

    rows: I64
    rows_ms: F64
    padding_rows: int = 0

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.rows_ms):
            raise BadInput(f"{len(self.rows)} rows and {len(self.rows_ms)} times", field="rows_ms")
        if len(self.rows) and (int(self.rows[0]) < 1 or np.any(np.diff(self.rows) <= 0)):
            raise BadInput("rows must be positive, increasing and without duplicates", field="rows")
        if not np.all(np.isfinite(self.rows_ms)):
            raise BadInput("every number of rows needs a time", field="rows_ms")
        frozen(self.rows)
        frozen(self.rows_ms)

    @classmethod
    def of(cls, rows: Sequence[int], rows_ms: Sequence[float], padding_rows: int = 0) -> Self:
        return cls(np.array(rows, dtype=np.int64), np.array(rows_ms, dtype=np.float64), padding_rows)

    def at(self, rows: I64 | F64) -> F64:
        """Linear between the rows that are known, constant outside: float64, same shape."""
        if len(self.rows) == 0:
            return np.zeros(np.shape(rows))
        found: F64 = np.interp(np.asarray(rows, dtype=np.float64), self.rows.astype(np.float64), self.rows_ms)
        return found

    def in_bucket(self, rows: I64, bucket: I64) -> F64:
        """As `at`, with the padding that fills each bucket: float64, same shape."""
        return self.at(rows + self.padding_rows * (rows < bucket))

    def within(self, sizes: I64, most_ms: F64) -> RowCurve:
        """The curve, scaled down where noise has made it larger than `most_ms` at one of `sizes`."""
        at_ms = self.at(sizes)
        over = at_ms > most_ms
        return self.scaled(float((most_ms[over] / at_ms[over]).min())) if over.any() else self

    def scaled(self, factor: float) -> RowCurve:
        return replace(self, rows_ms=self.rows_ms * factor)


NO_CURVE = RowCurve.of((), ())
"""Every row costs the same."""
