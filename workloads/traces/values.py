"""Raw columns to numbers, all rows at once; the first row that does not convert is named."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import polars as pl

from workloads.arrays import F64, I64
from workloads.errors import BadInput
from workloads.traces.iso_times import fixed_width_ns
from workloads.traces.mapping import TimeUnit
from workloads.traces.table import Chunk

MAX_TOKENS = 1_000_000_000
SECONDS: dict[TimeUnit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?\Z")

Bad = Callable[..., BadInput]
"""`Source.bad`."""


def iso_format(value: str) -> str | None:
    """The polars format of an ISO 8601 date-time; None where `value` is none. A row without zone is taken as UTC."""
    match = _ISO.match(value)
    if match is None:
        return None
    separator, zone = match.groups()
    suffix = {None: "", "Z": "Z"}.get(zone, "%z")
    return f"%Y-%m-%d{separator}%H:%M:%S%.f{suffix}"


def token_column(chunk: Chunk, role: str, name: str, bad: Bad) -> I64:
    """Token counts of a chunk, int64.

    Raises:
        BadInput: a value that is missing, not whole, negative or above 1e9, with line and field.
    """
    raw = chunk.frame[role]
    counts = _whole(raw)
    valid = counts.is_between(0, MAX_TOKENS).fill_null(False)
    if not valid.all():
        row = int((~valid).arg_true()[0])
        line, value = chunk.line_of(row), counts[row]
        if value is None:
            raise bad(f"{_shown(raw[row])} is not a whole number", line=line, field=name)
        if value < 0:
            raise bad(f"a token count cannot be negative, found {value}", line=line, field=name)
        raise bad(f"{value} tokens are more than any request has", line=line, field=name)
    return counts.to_numpy().astype(np.int64)


def number_column(chunk: Chunk, role: str, name: str, bad: Bad) -> F64:
    """Finite numbers of a chunk, float64."""
    raw = chunk.frame[role]
    numbers = raw.cast(pl.Float64, strict=False) if _castable(raw) else pl.Series([None] * len(raw), dtype=pl.Float64)
    valid = numbers.is_finite().fill_null(False)
    if not valid.all():
        row = int((~valid).arg_true()[0])
        raise bad(f"{_shown(raw[row])} is not a number", line=chunk.line_of(row), field=name)
    return numbers.to_numpy().astype(np.float64)


def time_column(chunk: Chunk, role: str, name: str, layout: str, bad: Bad, time_zone: str | None = None) -> I64:
    """ISO 8601 text (or a Parquet date-time) as Unix nanoseconds, int64.

    Args:
        time_zone: zone of times that carry none; an hour that it has twice is taken as the earlier, and an hour that
            it does not have is refused.
    """
    raw = chunk.frame[role]
    if raw.dtype == pl.String and iso_format(str(raw[0])) == layout and (time_zone is None or layout.endswith("z")):
        quick = fixed_width_ns(raw)
        if quick is not None:
            return quick
    if isinstance(raw.dtype, pl.Datetime):
        times = raw.dt.cast_time_unit("ns")
    elif raw.dtype == pl.String:
        times = raw.str.to_datetime(layout, time_unit="ns", strict=False, ambiguous="null")
    else:
        times = pl.Series([None] * len(raw), dtype=pl.Datetime("ns"))
    naive = isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is None and not layout.endswith("Z")
    if time_zone is not None and naive:
        times = times.dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
    if times.null_count():
        row = int(times.is_null().arg_true()[0])
        raise bad(
            f"{_shown(raw[row])} is not a time like those before it", line=chunk.line_of(row), field=name
        ) from None
    return times.to_physical().to_numpy().astype(np.int64)


def _whole(raw: pl.Series) -> pl.Series:
    """Int64, null where a value is not a whole number."""
    if not _castable(raw):
        return pl.Series([None] * len(raw), dtype=pl.Int64)
    if raw.dtype.is_integer():
        return raw.cast(pl.Int64, strict=False)
    counts = raw.cast(pl.Int64, strict=False) if raw.dtype == pl.String else None
    if counts is not None and counts.null_count() == 0:
        return counts
    numbers = raw.cast(pl.Float64, strict=False)
    whole = numbers.is_finite() & (numbers == numbers.floor()) & (numbers.abs() < 2.0**53)
    frame = pl.DataFrame({"number": numbers, "whole": whole.fill_null(False)})
    found = frame.select(pl.when("whole").then("number").otherwise(None).cast(pl.Int64)).to_series()
    return found if counts is None else frame.select(pl.coalesce(counts, found)).to_series()


def _castable(raw: pl.Series) -> bool:
    return raw.dtype == pl.String or raw.dtype.is_numeric()


def _shown(value: object) -> str:
    return "a missing value" if value is None or value == "" else f"'{str(value)[:60]}'"
