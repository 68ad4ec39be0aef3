"""From a table with three known columns to a RequestTrace: the one path that every request format takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.arrays import F64, I64, Bool
from workloads.traces.mapping import TimeUnit
from workloads.traces.records import ReadResult, RequestTrace, RowCount
from workloads.traces.source import Source
from workloads.traces.table import Chunk, Table
from workloads.traces.values import SECONDS, iso_format, number_column, time_column, token_column

NO_OUTPUT = "no output tokens"
NO_INPUT = "no input tokens"
EPOCH_FROM_S, EPOCH_TO_S = 9.4e8, 4.2e9
"""1999 to 2103: a number of seconds in between is a Unix time, not an offset."""


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """Column names and the unit of `arrival`."""

    arrival: str
    input_tokens: str
    output_tokens: str
    time_unit: TimeUnit


def read_requests(
    source: Source, table: Table, columns: RequestColumns, *, name: str, notes: Sequence[str] = ()
) -> ReadResult:
    """Read, check, filter, sort and rebase.

    Rows without output tokens (failed requests) or without input tokens are dropped and counted. Any other value
    that is not what its column promises refuses the whole file: a trace with a broken row is not evidence.

    Raises:
        BadInput: a broken row, no rows at all, or no row left.
    """
    arrival, inputs, outputs, lines = _columns(source, table, columns)
    rows, kept = _filter(inputs, outputs, lines)
    if not kept.any():
        raise source.bad(f"none of the {rows.read} rows is a request with input and output tokens")
    arrival, inputs, outputs = arrival[kept], inputs[kept], outputs[kept]
    said = list(notes)
    behind = int(np.count_nonzero(np.diff(arrival) < 0))
    if behind:
        said.append(f"{behind} rows arrived before the row above them; the requests were sorted by arrival")
        order = np.argsort(arrival, kind="stable")
        arrival, inputs, outputs = arrival[order], inputs[order], outputs[order]
    scale = 1e-9 if columns.time_unit == "iso" else SECONDS[columns.time_unit]
    first_s = float(arrival[0]) * scale
    is_epoch = columns.time_unit == "iso" or EPOCH_FROM_S < first_s < EPOCH_TO_S
    arrival_s = (arrival - arrival[0]).astype(np.float64) * scale
    trace = RequestTrace(arrival_s, inputs, outputs, first_s if is_epoch else None)
    return ReadResult(name, "requests", rows, trace, notes=tuple(said))


def _columns(source: Source, table: Table, columns: RequestColumns) -> tuple[F64 | I64, I64, I64, I64]:
    roles = {"arrival": columns.arrival, "input": columns.input_tokens, "output": columns.output_tokens}
    layout = _layout(source, table, columns)
    parts: list[tuple[F64 | I64, I64, I64, I64]] = []
    for chunk in table.chunks(roles):
        chunk = chunk.without_blank_rows()
        if chunk.frame.height == 0:
            continue
        inputs = token_column(chunk, "input", columns.input_tokens, source.bad)
        outputs = token_column(chunk, "output", columns.output_tokens, source.bad)
        arrival: F64 | I64
        if layout is None:
            arrival = number_column(chunk, "arrival", columns.arrival, source.bad)
        else:
            arrival = time_column(chunk, "arrival", columns.arrival, layout, source.bad)
        parts.append((arrival, inputs, outputs, _dropped_lines(chunk, inputs, outputs)))
    if not parts:
        raise source.bad("the file has a header and no rows")
    arrivals, inputs_, outputs_, lines = zip(*parts, strict=True)
    return np.concatenate(arrivals), np.concatenate(inputs_), np.concatenate(outputs_), np.concatenate(lines)


def _layout(source: Source, table: Table, columns: RequestColumns) -> str | None:
    """The date-time layout of the arrival column; None where it holds numbers."""
    if columns.time_unit != "iso":
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


def _dropped_lines(chunk: Chunk, inputs: I64, outputs: I64) -> I64:
    """Lines of the chunk's first row without output and first row without input, else 0; padded to its length."""
    lines = np.zeros(len(inputs), dtype=np.int64)
    for missing in (outputs == 0, (inputs == 0) & (outputs > 0)):
        if missing.any():
            row = int(np.argmax(missing))
            lines[row] = chunk.line_of(row)
    return lines


def _filter(inputs: I64, outputs: I64, lines: I64) -> tuple[RowCount, Bool]:
    dropped: dict[str, int] = {}
    first_line: dict[str, int] = {}
    for reason, rows in ((NO_OUTPUT, outputs == 0), (NO_INPUT, (inputs == 0) & (outputs > 0))):
        count = int(np.count_nonzero(rows))
        if count:
            dropped[reason] = count
            first_line[reason] = int(lines[np.argmax(rows)])
    kept: Bool = (inputs > 0) & (outputs > 0)
    return RowCount(len(inputs), int(np.count_nonzero(kept)), dropped, first_line), kept
