"""Any request table: CSV, TSV, JSON lines or Parquet with columns named in a mapping or by well-known names."""

from __future__ import annotations

from workloads.traces.base import Probe, Reader
from workloads.traces.header_names import convention_of, nearest_convention, synonym
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.requests import RequestColumns, read_requests
from workloads.traces.source import Source
from workloads.traces.table import Table
from workloads.traces.time_units import settled_unit

ROLES = ("arrival", "input tokens", "output tokens")


class GenericRequests(Reader):
    name = "requests"
    description = "request table (CSV, TSV, JSON, JSON lines, Parquet) with arrival, input and output token columns"
    told_by = "well-known column names, or a mapping"

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        if table is None:
            return 0
        found = sum(synonym(table.names, role) is not None for role in ROLES)
        if convention_of(table.names) or found == len(ROLES):
            return 50
        return 10 if found or nearest_convention(table.names) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source, table = probe.source, probe.table
        if table is None:
            raise source.bad("not a table: expected CSV with a header, JSON lines or Parquet")
        chosen = mapping or ColumnMapping()
        arrival, inputs, outputs = _names(source, table, chosen)
        if arrival is None or chosen.arrivals is not None:
            columns = RequestColumns(arrival, inputs, outputs, "s")
            notes: tuple[str, ...] = (f"input is '{inputs}', output '{outputs}'",)
            return read_requests(source, table, columns, name=self.name, notes=notes, mapping=mapping)
        known = convention_of(table.names)
        unit = chosen.time_unit
        if unit is None and known is not None and known.arrival == arrival:
            unit = known.time_unit
        notes = (f"arrival is '{arrival}', input '{inputs}', output '{outputs}'",)
        if unit is None:
            unit, why = settled_unit(source, table, arrival, chosen.time_zone)
            notes += why
        columns = RequestColumns(arrival, inputs, outputs, unit)
        return read_requests(source, table, columns, name=self.name, notes=notes, mapping=mapping)


def _names(source: Source, table: Table, mapping: ColumnMapping) -> tuple[str | None, str, str]:
    """Arrival (None where an arrival process stands in for it), input and output column.

    Raises:
        BadInput: one is missing; names it and what the file has.
    """
    asked = (mapping.arrival, mapping.input_tokens, mapping.output_tokens)
    known = convention_of(table.names)
    near = nearest_convention(table.names)
    found: list[str | None] = []
    for index, (role, wanted) in enumerate(zip(ROLES, asked, strict=True)):
        name = wanted or (known.names[index] if known else synonym(table.names, role))
        if index == 0 and mapping.arrivals is not None and (name is None or name not in table.names):
            found.append(None)
            continue
        if name is None or name not in table.names:
            missing = wanted or (near.names[index] if near else None)
            which = f"column '{missing}' ({role})" if missing else f"column for {role}"
            listing = ", ".join(table.names[:20]) or "nothing"
            hint = "; for lengths without times give an arrival process" if index == 0 else ""
            raise source.bad(f"there is no {which}; the file has {listing}{hint}", line=1, field=missing or role)
        found.append(name)
    arrival, inputs, outputs = found
    return arrival, str(inputs), str(outputs)
