"""Reader: one trace format. Probe: what is known of a file before it is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from workloads.traces.csv_table import CsvTable
from workloads.traces.json_document import JsonDocument
from workloads.traces.json_table import JsonTable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.parquet_table import ParquetTable
from workloads.traces.records import ReadResult
from workloads.traces.source import Source
from workloads.traces.table import Table

DOCUMENT_KEYS = ("input_lens", "resourceSpans", "benchmarks", "resultType")
"""Keys of exports that have readers of their own: those documents are not tried as plain lists of requests."""


class Probe:
    """A file as the readers see it when they are asked whether they know it.

    Args:
        source: the file.
        markers: byte strings whose presence tells log formats apart.
    """

    def __init__(self, source: Source, markers: Sequence[bytes] = ()) -> None:
        self.source = source
        self._markers = tuple(markers)

    @cached_property
    def table(self) -> Table | None:
        """The file as a table, or None where it has neither a header nor JSON objects."""
        if self.source.is_parquet:
            return ParquetTable(self.source)
        if self.source.is_tar or self.source.is_msgpack:
            return None
        if self.document is not None:
            return None if any(map(self.document.mentions, DOCUMENT_KEYS)) else self.document.table()
        return JsonTable.open(self.source) or CsvTable.open(self.source)

    @cached_property
    def document(self) -> JsonDocument | None:
        """The file as one JSON document, or None."""
        return JsonDocument.open(self.source)

    @cached_property
    def found_markers(self) -> frozenset[bytes]:
        """Markers in the first block that has any, and in the block after it (two tables of one log can part there)."""
        source = self.source
        if source.is_parquet or source.is_tar or source.is_msgpack or self.document is not None:
            return frozenset()
        found: set[bytes] = set()
        for block in self.source.blocks(utf8=False):
            last = bool(found)
            found.update(marker for marker in self._markers if marker in block.data)
            if last:
                break
        return frozenset(found)


class Reader(ABC):
    """One format. Readers are stateless; the registry holds one instance of each.

    Recognition looks at content only, never at the file's name, and checks values, not just column names. Reading
    keeps columns, never one Python object per request, and the counts in the result always add up.

    Attributes:
        name: the format's name, as `--format` and `ReadResult.format` spell it.
        description: one phrase for help texts.
        markers: byte strings that every log of this format has; empty for tables.
        told_by: what content gives the format away, for the documentation.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    markers: ClassVar[tuple[bytes, ...]] = ()
    told_by: ClassVar[str] = ""

    @abstractmethod
    def recognise(self, probe: Probe) -> int:
        """0 for a foreign file, else how sure the reader is, up to 100; the surest reader gets the file."""

    @abstractmethod
    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        """Read the whole file.

        Args:
            mapping: column names and time unit; formats with fixed columns ignore it.

        Raises:
            BadInput: with file, and line and field where one row is to blame.
        """
