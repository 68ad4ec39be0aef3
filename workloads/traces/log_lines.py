"""Log text as polars frames of candidate lines, block by block; a gigabyte is never a list of Python strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from workloads.arrays import F64
from workloads.traces.source import Source

DAY_S = 86_400.0
_YEAR_DAYS = 366


def candidate_lines(source: Source, needles: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Lines that contain one of `needles`, with columns `line` (1-based, int64) and `text`."""
    for block in source.blocks(utf8=False):
        text = block.data.decode("utf-8", errors="replace")
        lines = pl.Series("text", [text]).str.split("\n").explode().to_frame().with_row_index("line", block.first_line)
        hits = lines.filter(pl.col("text").str.contains_any(list(needles)))
        if hits.height:
            yield hits.with_columns(pl.col("line").cast(pl.Int64))


def number(pattern: str, dtype: pl.DataType) -> pl.Expr:
    """The first group of `pattern` in `text`, as a number; null where it is absent."""
    return pl.col("text").str.extract(pattern).cast(dtype, strict=False)


def clock_s(*, date: str | None) -> pl.Expr:
    """Seconds of the first clock time in a line, as float64; null where there is none.

    Args:
        date: regular expression of the date before the time, as one group: `YYYY-MM-DD` or `MM-DD`. A line without
            it (or None) gives seconds since midnight.
    """
    time = r"(\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?)"
    clock = pl.col("text").str.extract_groups((rf"{date}[ T]" if date else "") + time)
    first = 2 if date else 1
    hours, minutes, seconds = (clock.struct.field(str(first + i)) for i in range(3))
    total = (
        hours.cast(pl.Float64) * 3600
        + minutes.cast(pl.Float64) * 60
        + seconds.str.replace(",", ".").cast(pl.Float64, strict=False)
    )
    if date is None:
        return total
    text = clock.struct.field("1")
    # Without a year any leap year will do: only differences are used.
    dated = pl.when(text.str.len_bytes() == 5).then(pl.lit("2024-") + text).otherwise(text)
    days = dated.str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Float64)
    return days * DAY_S + total


def since_first(times_s: F64, *, wraps_s: float | None) -> F64:
    """Times relative to the first known one; `wraps_s` is the period of a clock without date (a day) or year.

    A step back by more than half a period is the clock starting again; a smaller one is two interleaved writers.
    """
    known = np.isfinite(times_s)
    if not known.any():
        return times_s
    values = times_s[known]
    if wraps_s is not None:
        values = values + wraps_s * np.cumsum(np.diff(values, prepend=values[0]) < -wraps_s / 2)
    result = np.full(len(times_s), np.nan)
    result[known] = values - values[0]
    return result


YEAR_S = _YEAR_DAYS * DAY_S
