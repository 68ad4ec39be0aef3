"""MappingProposal: what the columns of a table likely mean, told by their names, for a person to confirm."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workloads.errors import BadInput
from workloads.traces.base import Probe, Reader
from workloads.traces.generic import ROLES
from workloads.traces.header_names import convention_of, synonym
from workloads.traces.mapping import ColumnMapping, TimeUnit
from workloads.traces.registry import CERTAIN, probe, recognise
from workloads.traces.source import MAX_BYTES, Source
from workloads.traces.table import Table
from workloads.traces.time_units import UnitReading, readings, settled_unit
from workloads.traces.values import iso_format

ColumnKind = Literal["number", "time", "text", "empty"]
_LIKELY = {
    "arrival": re.compile(r"arriv|start|creat|receiv|submit|request.*time|time|date|(^|_)ts($|_)"),
    "input tokens": re.compile(r"prompt|input|context|prefill|question|(^|_)in($|_)"),
    "output tokens": re.compile(r"output|complet|generat|response|decode|answer|(^|_)out($|_)"),
}
_NOT_TOKENS = re.compile(r"time|latency|_ms|_s$|cost|price|price|byte|char|id$|rate")


@dataclass(frozen=True, slots=True)
class ColumnSeen:
    """A column as the sample shows it; `example` is a number or a time, never text (it could be a prompt)."""

    name: str
    kind: ColumnKind
    example: str | None


@dataclass(frozen=True, slots=True)
class MappingProposal:
    """What a person is asked before a table is read.

    Attributes:
        format: the reader that takes the file as it is; None where a mapping is needed.
        columns: the file's columns, at most 200; empty for logs and archives.
        mapping: the proposal; None fields were not found.
        unit_readings: for numbers, what each unit would make of the sampled arrivals.
        questions: what is left open, one sentence each; empty where the mapping can be used as it stands.
    """

    format: str | None
    columns: tuple[ColumnSeen, ...]
    mapping: ColumnMapping
    unit_readings: tuple[UnitReading, ...]
    questions: tuple[str, ...]


def propose(path: Path, *, max_bytes: int = MAX_BYTES) -> MappingProposal:
    """Look at a file's names and first rows; nothing is read to its end.

    Raises:
        BadInput: the file is no table and no known format either.
    """
    probed = probe(Source(Path(path), max_bytes=max_bytes))
    table = probed.table
    if table is None:
        return MappingProposal(recognise(probed).name, (), ColumnMapping(), (), ())
    known = _known(probed)
    if known is not None and known.markers:  # a log: a line with commas in it only looks like a header
        return MappingProposal(known.name, (), ColumnMapping(), (), ())
    columns = tuple(_seen(table, name) for name in table.names[:200])
    arrival, inputs, outputs = _roles(table, columns)
    unit, units, questions = _unit(probed.source, table, arrival)
    if arrival is None:
        questions = ("no column of arrival times was found: name one, or give an arrival process",)
    for role, name in (("input tokens", inputs), ("output tokens", outputs)):
        if name is None:
            questions += (f"no column of {role} was found: name one",)
    mapping = ColumnMapping(arrival, inputs, outputs, unit)
    return MappingProposal(known.name if known else None, columns, mapping, units, () if known else questions)


def _known(probed: Probe) -> Reader | None:
    """The reader that takes the file without a mapping."""
    try:
        reader = recognise(probed)
    except BadInput:
        return None
    return reader if reader.markers or reader.recognise(probed) > CERTAIN else None


def _roles(table: Table, columns: tuple[ColumnSeen, ...]) -> tuple[str | None, str | None, str | None]:
    convention = convention_of(table.names)
    if convention is not None:
        return convention.names
    found: list[str | None] = []
    for role in ROLES:
        name = synonym(table.names, role) or _likely(columns, role, found)
        found.append(name)
    arrival, inputs, outputs = found
    return arrival, inputs, outputs


def _likely(columns: tuple[ColumnSeen, ...], role: str, taken: list[str | None]) -> str | None:
    """The first column whose name and values fit a role that no well-known name fills."""
    for column in columns:
        name = column.name.lower()
        if column.name in taken or not _LIKELY[role].search(name):
            continue
        if role == "arrival" and column.kind in ("number", "time"):
            return column.name
        if role != "arrival" and column.kind == "number" and not _NOT_TOKENS.search(name) and _is_whole(column):
            return column.name
    return None


def _is_whole(column: ColumnSeen) -> bool:
    number = float(column.example or "nan")
    return number == math.floor(number) and number >= 0 if math.isfinite(number) else False


def _unit(
    source: Source, table: Table, arrival: str | None
) -> tuple[TimeUnit | None, tuple[UnitReading, ...], tuple[str, ...]]:
    if arrival is None:
        return None, (), ()
    numbers = [number for value in table.values(arrival) if (number := _number(value)) is not None]
    shown = readings(numbers) if numbers else ()
    convention = convention_of(table.names)
    if convention is not None and convention.time_unit is not None:
        return convention.time_unit, shown, ()
    try:
        return settled_unit(source, table, arrival, None)[0], shown, ()
    except BadInput as problem:
        return None, shown, (problem.message,)


def _seen(table: Table, name: str) -> ColumnSeen:
    first = next(iter(table.values(name)), None)
    if first is None or first == "":
        return ColumnSeen(name, "empty", None)
    if _number(first) is not None:
        return ColumnSeen(name, "number", str(first)[:40])
    if isinstance(first, datetime.datetime) or (isinstance(first, str) and iso_format(first.strip())):
        return ColumnSeen(name, "time", str(first)[:40])
    return ColumnSeen(name, "text", None)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
