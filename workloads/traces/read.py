"""Read a recorded trace or an engine log: the one way in."""

from __future__ import annotations

from pathlib import Path

from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.registry import probe, reader_named, recognise
from workloads.traces.source import MAX_BYTES, Source


def read(
    path: Path,
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> ReadResult:
    """Read a file whose format is told by its content.

    Plain, gzip, bzip2, xz and zstd files are told by their first bytes, whatever their names.

    Args:
        mapping: column names and time unit of a request table, which make the file one; time zone, time scale and
            arrival process, which every request format takes.
        format: a reader's name, for a file that is not recognised or could be two things.
        max_bytes: most unpacked bytes that are read.

    Raises:
        BadInput: the file is not a trace, or a row of it is broken; names file, line and field.
        BadUsage: no such format.
    """
    chosen = reader_named(format) if format is not None else None
    probed = probe(Source(Path(path), max_bytes=max_bytes))
    if chosen is None:
        named = mapping is not None and mapping.names_columns
        chosen = reader_named("requests") if named else recognise(probed)
    return chosen.read(probed, mapping)
