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

_NAMES = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_COLUMNS = RequestColumns(*_NAMES, "iso")


class _Azure(Reader):
    zoned: ClassVar[bool]

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        if not isinstance(table, CsvTable) or table.names != _NAMES:
            return 0
        values = table.values("TIMESTAMP")
        layout = iso_format(str(values[0]).strip()) if values else None
        return 90 if layout is not None and layout.endswith(("%z", "Z")) == self.zoned else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table = probe.table
        if not isinstance(table, CsvTable) or not table.has(*_NAMES):
            raise probe.source.bad("not an Azure trace: its header is TIMESTAMP,ContextTokens,GeneratedTokens")
        notes = (_no_zone(mapping),) if not self.zoned else ()
        return read_requests(probe.source, table, _COLUMNS, name=self.name, notes=notes, mapping=mapping)


class Azure2023(_Azure):
    name = "azure-2023"
    description = "Azure LLM inference trace 2023, CSV with times without zone"
    zoned = False
    told_by = "its header, and times without zone"


class Azure2024(_Azure):
    name = "azure-2024"
    description = "Azure LLM inference trace 2024, CSV with UTC offsets"
    zoned = True
    told_by = "its header, and times with an offset"


class AzureMultimodal(Reader):
    name = "azure-2025-multimodal"
    description = "Azure multimodal inference trace 2025, CSV with an image count"
    told_by = "the column `NumImages` in its header"

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        return 90 if isinstance(table, CsvTable) and set(table.names) == {*_NAMES, "NumImages"} else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table = probe.table
        if table is None or not table.has(*_NAMES, "NumImages"):
            raise probe.source.bad("not the multimodal Azure trace: it has TIMESTAMP,NumImages and two token columns")
        note = "images are not counted apart: the engine's steps are simulated from ContextTokens as they stand"
        return read_requests(probe.source, table, _COLUMNS, name=self.name, notes=(note,), mapping=mapping)


def _no_zone(mapping: ColumnMapping | None) -> str:
    return f"times carry no zone and were taken as {(mapping and mapping.time_zone) or 'UTC'}"
