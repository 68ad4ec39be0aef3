"""From a table with three known columns to a RequestTrace: the one path that every request format takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import polars as pl

from workloads.arrays import F64, I64
from workloads.traces.block_column import ROLE as BLOCKS
from workloads.traces.block_column import BlockColumn
from workloads.traces.clock import (
    drop_back_note,
    duplicate_note,
    is_epoch,
    order_note,
    spread_ticks,
    tick_note,
    unwrap_midnight,
)
from workloads.traces.mapping import ColumnMapping, TimeUnit
from workloads.traces.prefix_blocks import PrefixBlocks
from workloads.traces.records import ReadResult, RequestTrace, RowCount
from workloads.traces.row_lines import Dropped, RowLines
from workloads.traces.source import Source
from workloads.traces.table import Chunk, Table
from workloads.traces.values import SECONDS, iso_format, number_column, time_column, token_column

NO_OUTPUT = "no output tokens"
NO_INPUT = "no input tokens"
FAILED = "failed request"
_STATUS = "status"


@dataclass(frozen=True, slots=True)
class Failure:
    """How a format marks rows that are no served request.

    Attributes:
        column: the column that says so.
        failed: polars expression over the column `status` (its raw values), true for rows to leave out.
        reason: under which they are counted.
    """

    column: str
    failed: pl.Expr
    reason: str = FAILED


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """Column names and the unit of `arrival`; None for a set of lengths without times.

    `blocks` holds a list of ids, one per `block_tokens` tokens of the prompt; None where the format has none.
    """

    arrival: str | None
    input_tokens: str
    output_tokens: str
    time_unit: TimeUnit
    failures: tuple[Failure, ...] = ()
    blocks: str | None = None
    block_tokens: int = 1


@dataclass(slots=True)
class _Columns:
    """What was kept so far; tokens as int32 until the end, because ten million rows are held twice at the join."""

    arrival: list[F64 | I64] = field(default_factory=list)
    inputs: list[np.ndarray[tuple[int], np.dtype[np.int32]]] = field(default_factory=list)
    outputs: list[np.ndarray[tuple[int], np.dtype[np.int32]]] = field(default_factory=list)
    lines: RowLines = field(default_factory=RowLines)
    dropped: Dropped = field(default_factory=Dropped)
    read: int = 0
    blocks: BlockColumn | None = None


def read_requests(
    source: Source,
    table: Table,
    columns: RequestColumns,
    *,
    name: str,
    notes: Sequence[str] = (),
    mapping: ColumnMapping | None = None,
) -> ReadResult:
    """Read, check, filter, sort and rebase.

    Failed requests and rows without output or input tokens are dropped and counted by reason. Any other value that
    is not what its column promises refuses the whole file: a trace with a broken row is not evidence. What is odd
    about the clock (rows out of order, midnight, coarse ticks, equal rows) is named in the notes, with what was done.

    Raises:
        BadInput: a broken row, no rows at all, no row left, or no times and no arrival process.
    """
    chosen = mapping or ColumnMapping()
    if columns.arrival is None and chosen.arrivals is None:
        raise source.bad(
            "the requests have lengths and no arrival times; give an arrival process, for example poisson:8 for 8 "
            "requests a second at random",
            field="arrivals",
        )
    found = _read(source, table, columns, chosen)
    rows = RowCount(found.read, found.read - found.dropped.total, found.dropped.counts, found.dropped.first_line)
    if rows.kept == 0:
        raise source.bad(f"none of the {rows.read} rows is a request with input and output tokens{_told(rows)}")
    inputs = np.concatenate(found.inputs, dtype=np.int64)
    outputs = np.concatenate(found.outputs, dtype=np.int64)
    said = list(notes)
    if chosen.arrivals is not None:
        said.append(f"arrival times are not from the file: {chosen.arrivals}")
        trace = RequestTrace(chosen.arrivals.sample_s(rows.kept), inputs, outputs, prefix_blocks=_blocks(found))
    else:
        trace = _timed(found, inputs, outputs, columns.time_unit, chosen, said)
    return ReadResult(name, "requests", rows, trace, notes=tuple(said))


def _timed(
    found: _Columns, inputs: I64, outputs: I64, unit: TimeUnit, chosen: ColumnMapping, said: list[str]
) -> RequestTrace:
    """Recorded arrivals in order, from 0; appends to `said` what was odd about them."""
    arrival = cast("F64 | I64", np.concatenate(found.arrival))
    found.arrival.clear()
    scale = 1e-9 if unit == "iso" else SECONDS[unit]
    if unit != "iso":
        arrival, said[len(said) :] = unwrap_midnight(arrival, scale, found.lines)
    steps = np.diff(arrival)
    behind = np.flatnonzero(steps < 0)
    order: I64 | None = None
    if len(behind):
        said.append(order_note(behind, found.lines))
        said.extend(drop_back_note(arrival, steps, behind, scale, found.lines))
        order = np.argsort(arrival, kind="stable")
        arrival, inputs, outputs = arrival[order], inputs[order], outputs[order]
        steps = np.diff(arrival)
    said.extend(duplicate_note(steps, inputs, outputs, order, found.lines))
    first_s = float(arrival[0]) * scale
    arrival_s: F64 = (arrival - arrival[0]).astype(np.float64) * scale
    said.extend(tick_note(steps, scale))
    if chosen.spread_ticks_seed is not None:
        arrival_s, spread = spread_ticks(arrival_s, chosen.spread_ticks_seed)
        said.append(spread)
    if chosen.time_scale != 1:
        arrival_s = arrival_s * chosen.time_scale
        said.append(f"every time was multiplied by {chosen.time_scale:g}, as asked")
    blocks = _blocks(found)
    if blocks is not None and order is not None:
        blocks = blocks.of(order)
    return RequestTrace(arrival_s, inputs, outputs, first_s if unit == "iso" or is_epoch(first_s) else None, blocks)


def _blocks(found: _Columns) -> PrefixBlocks | None:
    return None if found.blocks is None else found.blocks.finish()


def _read(source: Source, table: Table, columns: RequestColumns, chosen: ColumnMapping) -> _Columns:
    roles = {"input": columns.input_tokens, "output": columns.output_tokens}
    timed = columns.arrival is not None and chosen.arrivals is None
    layout = None
    if timed and columns.arrival is not None:
        roles["arrival"] = columns.arrival
        layout = _layout(source, table, columns)
    roles |= {f"{_STATUS}{i}": failure.column for i, failure in enumerate(columns.failures)}
    found = _Columns()
    if columns.blocks is not None:
        roles[BLOCKS] = columns.blocks
        found.blocks = BlockColumn(columns.blocks, columns.block_tokens)
    for raw in table.chunks(roles):
        chunk = raw.without_blank_rows()
        found.read += chunk.frame.height
        chunk = _without_failures(chunk, columns.failures, found.dropped)
        if chunk.frame.height == 0:
            continue
        inputs = token_column(chunk, "input", columns.input_tokens, source.bad)
        outputs = token_column(chunk, "output", columns.output_tokens, source.bad)
        kept = _with_tokens(chunk, inputs, outputs, found.dropped)
        if timed and columns.arrival is not None:
            arrival: F64 | I64
            if layout is None:
                arrival = number_column(chunk, "arrival", columns.arrival, source.bad)
            else:
                arrival = time_column(chunk, "arrival", columns.arrival, layout, source.bad, chosen.time_zone)
            found.arrival.append(arrival if kept is None else arrival[kept])
        found.inputs.append((inputs if kept is None else inputs[kept]).astype(np.int32))
        found.outputs.append((outputs if kept is None else outputs[kept]).astype(np.int32))
        if found.blocks is not None:
            found.blocks.add(chunk, kept, source.bad)
        found.lines.add(chunk, kept)
    if found.read == 0:
        raise source.bad("the file has a header and no rows")
    return found


def _without_failures(chunk: Chunk, failures: Sequence[Failure], dropped: Dropped) -> Chunk:
    for i, failure in enumerate(failures):
        status = chunk.frame.select(pl.col(f"{_STATUS}{i}").alias(_STATUS))
        failed = status.select(failure.failed.fill_null(False)).to_series()
        if not failed.any():
            continue
        rows = failed.arg_true().to_numpy()
        dropped.count(failure.reason, len(rows), chunk.line_of(int(rows[0])))
        chunk = chunk.only((~failed).arg_true().to_numpy().astype(np.int64))
    return chunk


def _with_tokens(chunk: Chunk, inputs: I64, outputs: I64, dropped: Dropped) -> I64 | None:
    """Indices of rows with input and output tokens; None where that is all of them."""
    if int(inputs.min()) > 0 and int(outputs.min()) > 0:
        return None
    for reason, missing in ((NO_OUTPUT, outputs == 0), (NO_INPUT, (inputs == 0) & (outputs > 0))):
        if missing.any():
            dropped.count(reason, int(np.count_nonzero(missing)), chunk.line_of(int(np.argmax(missing))))
    return np.flatnonzero((inputs > 0) & (outputs > 0))


def _layout(source: Source, table: Table, columns: RequestColumns) -> str | None:
    """The date-time layout of the arrival column; None where it holds numbers."""
    if columns.time_unit != "iso" or columns.arrival is None:
        return None
    values = table.values(columns.arrival)
    if not values:
        raise source.bad("the file has a header and no rows" if not table.sample else "no row has an arrival time")
    if not isinstance(values[0], str):
        return ""
    layout = iso_format(values[0].strip())
    if layout is None:
        raise source.bad(f"'{values[0][:60]}' is not an ISO 8601 time", line=2, field=columns.arrival)
    return layout


def _told(rows: RowCount) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in rows.dropped.items())
    return f" ({reasons})" if reasons else ""
