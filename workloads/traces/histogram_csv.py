"""`size,count` files: steps per size, with an optional `family` column."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from workloads.arrays import I64
from workloads.histogram import Unit
from workloads.traces.base import Probe, Reader
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult, RowCount, StepTrace
from workloads.traces.source import Source
from workloads.traces.table import Chunk, Table
from workloads.traces.values import number_column

FAMILY = re.compile(
    r"decode_full|decode_piecewise|prefill_piecewise|prefill_breakable|target_verify|draft|train_[a-z0-9_]+"
)
TOKEN_FAMILIES = ("decode_piecewise", "prefill_piecewise", "prefill_breakable")
MAX_FAMILIES = 100


class HistogramCsv(Reader):
    name = "histogram"
    description = "CSV with size,count and an optional family column"
    told_by = "a header of `size`, `count` and at most `family`"

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        if table is None or not table.has("size", "count") or not set(table.names) <= {"size", "count", "family"}:
            return 0
        return 95

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source, table = probe.source, probe.table
        if table is None or not table.has("size", "count"):
            found = ", ".join(table.names[:20]) if table else "no header"
            raise source.bad(f"a histogram needs the columns size and count; the file has {found}", line=1)
        parts = _rows(source, table)
        if not parts:
            raise source.bad("the file has a header and no rows")
        rows = pl.concat(parts)
        kept = rows.filter(pl.col("count") > 0)
        if kept.is_empty():
            raise source.bad(f"none of the {rows.height} rows counts a step", field="count")
        zeros = rows.filter(pl.col("count") == 0)
        dropped = {"zero count": zeros.height} if zeros.height else {}
        first = {"zero count": int(zeros["line"][0])} if zeros.height else {}
        return ReadResult(
            self.name, "histogram", RowCount(rows.height, kept.height, dropped, first), _trace(source, kept)
        )


def _rows(source: Source, table: Table) -> list[pl.DataFrame]:
    roles: dict[str, str] = {name: name for name in ("size", "count", "family") if name in table.names}
    parts: list[pl.DataFrame] = []
    for chunk in table.chunks(roles):
        rows = chunk.without_blank_rows()
        if rows.frame.height == 0:
            continue
        counts = _whole(rows, "count", 0, source)
        line = np.zeros(len(counts), dtype=np.int64)
        if not counts.all():
            first_zero = int(np.argmin(counts))
            line[first_zero] = rows.line_of(first_zero)
        columns = {"size": _whole(rows, "size", 1, source), "count": counts, "line": line}
        parts.append(pl.DataFrame(columns).with_columns(_families(rows, source).alias("family")))
    return parts


def _whole(chunk: Chunk, name: str, least: int, source: Source) -> I64:
    numbers = number_column(chunk, name, name, source.bad)
    wrong = (numbers != np.floor(numbers)) | (numbers < least) | (numbers > 2.0**53)
    if wrong.any():
        row = int(np.argmax(wrong))
        value = float(numbers[row])
        problem = (
            f"{value:g} is not a whole number"
            if value != np.floor(value)
            else f"must be at least {least}, not {value:g}"
        )
        if value > 2.0**53:
            problem = f"{value:g} is too large"
        raise source.bad(problem, line=chunk.line_of(row), field=name)
    return numbers.astype(np.int64)


def _families(chunk: Chunk, source: Source) -> pl.Series:
    if "family" not in chunk.frame.columns:
        return pl.Series(["decode_full"] * chunk.frame.height, dtype=pl.String)
    families = chunk.frame["family"].cast(pl.String).fill_null("decode_full")
    for name in families.unique(maintain_order=True):
        if not FAMILY.fullmatch(name):
            row = int((families == name).arg_true()[0])
            raise source.bad(f"'{name[:60]}' is not a graph family", line=chunk.line_of(row), field="family")
    return families


def _trace(source: Source, rows: pl.DataFrame) -> StepTrace:
    families: tuple[str, ...] = tuple(rows["family"].unique(maintain_order=True))
    if len(families) > MAX_FAMILIES:
        raise source.bad(f"has {len(families)} families; at most {MAX_FAMILIES} are read", field="family")
    units: tuple[Unit, ...] = tuple("tokens" if name in TOKEN_FAMILIES else "requests" for name in families)
    index = rows["family"].replace_strict(dict(zip(families, range(len(families)), strict=True)), return_dtype=pl.Int8)
    unknown = np.full(rows.height, np.nan)
    return StepTrace(
        size=rows["size"].to_numpy().astype(np.int64),
        steps=rows["count"].to_numpy().astype(np.int64),
        family_index=index.to_numpy().astype(np.int8),
        start_s=unknown,
        step_ms=unknown.copy(),
        kv_tokens=unknown.copy(),
        padded_size=np.zeros(rows.height, dtype=np.int64),
        fallback=np.full(rows.height, -1, dtype=np.int8),
        families=families,
        units=units,
        origin="given",
    )
