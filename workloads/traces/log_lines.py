"""Log text as polars frames of candidate lines, block by block; a gigabyte is never a list of Python strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from workloads.arrays import F64, I64
from workloads.traces.source import Source

DAY_S = 86_400.0
PIECE_BYTES = 2 << 20
"""Text that is split into lines at once: every line costs memory several times over while it is looked at."""
_YEAR_DAYS = 366


def pieces(source: Source) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a file, each ended by a newline, about PIECE_BYTES at a time, with the number of the first."""
    for block in source.blocks(utf8=False):
        data, line, start = block.data, block.first_line, 0
        while start < len(data):
            end = data.find(b"\n", start + PIECE_BYTES) + 1 or len(data)
            piece = data[start:end]
            yield line, piece
            line += piece.count(b"\n")
            start = end


def candidate_lines(data: bytes, numbers: int | I64, needles: Sequence[str]) -> pl.DataFrame:
    """Lines of `data` that contain one of `needles`, with columns `line` (1-based, int64) and `text`.

    Args:
        numbers: number of the first line, or of every line.
    """
    whole = pl.Series("text", [data.removesuffix(b"\n").decode("utf-8", errors="replace")])
    if not whole.str.contains_any(list(needles)).item():
        return pl.DataFrame(schema={"line": pl.Int64, "text": pl.String})
    lines = whole.str.split("\n").explode().to_frame()
    if isinstance(numbers, int):
        lines = lines.with_row_index("line", numbers).with_columns(pl.col("line").cast(pl.Int64))
    else:
        lines = lines.select(pl.Series("line", numbers, dtype=pl.Int64), "text")
    return lines.filter(pl.col("text").str.contains_any(list(needles)))


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


def log_clock_s(lines: pl.DataFrame) -> pl.Series:
    """Seconds of the `YYYY-MM-DD HH:MM:SS` or `HH:MM:SS` in each line of `text`, as float64; null where there is none.

    Lines that begin with a bracketed date and time, as most do, take the quick way.
    """
    stamp = pl.col("text").str.slice(1, 19)
    # What follows the seconds must end the number: `.123` and `,123` are part of it.
    plain = pl.col("text").str.slice(0, 1).eq("[") & pl.col("text").str.slice(20, 1).is_in([" ", "]"])
    quick = pl.when(plain).then(stamp).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False)
    times = lines.select((quick.dt.timestamp("ms").cast(pl.Float64) / 1000).alias("time_s")).to_series()
    if not times.null_count():
        return times
    rest = lines.select(pl.coalesce(clock_s(date=r"(\d{4}-\d\d-\d\d)"), clock_s(date=None)).alias("time_s"))
    return times.fill_null(rest.to_series())


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
