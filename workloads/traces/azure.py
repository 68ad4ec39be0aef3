"""Azure LLM inference traces (CC-BY-4.0): `TIMESTAMP,ContextTokens,GeneratedTokens`.

Both releases have the same header. 2023 rows have no zone and seven fractional digits (100 ns), CRLF ends and no
final newline; 2024 rows have a UTC offset. Only the value tells them apart.
"""

from __future__ import annotations

from typing import ClassVar

from workloads.traces.base import Probe, Reader
from workloads.traces.csv_table import CsvTable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.requests import RequestColumns, read_requests
from workloads.traces.values import iso_format

_COLUMNS = RequestColumns("TIMESTAMP", "ContextTokens", "GeneratedTokens", "iso")


class _Azure(Reader):
    zoned: ClassVar[bool]
    notes: ClassVar[tuple[str, ...]] = ()

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        if not isinstance(table, CsvTable) or table.names != ("TIMESTAMP", "ContextTokens", "GeneratedTokens"):
            return 0
        values = table.values("TIMESTAMP")
        layout = iso_format(str(values[0]).strip()) if values else None
        return 90 if layout is not None and layout.endswith(("%z", "Z")) == self.zoned else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table = probe.table
        if not isinstance(table, CsvTable) or not table.has("TIMESTAMP", "ContextTokens", "GeneratedTokens"):
            raise probe.source.bad("not an Azure trace: its header is TIMESTAMP,ContextTokens,GeneratedTokens")
        return read_requests(probe.source, table, _COLUMNS, name=self.name, notes=self.notes)


class Azure2023(_Azure):
    name = "azure-2023"
    description = "Azure LLM inference trace 2023, CSV with times without zone"
    zoned = False
    notes = ("times carry no zone and were taken as UTC",)


class Azure2024(_Azure):
    name = "azure-2024"
    description = "Azure LLM inference trace 2024, CSV with UTC offsets"
    zoned = True
