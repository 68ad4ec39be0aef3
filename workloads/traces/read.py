"""Read a recorded trace or an engine log: the one way in."""

from __future__ import annotations

from pathlib import Path

from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.registry import probe, reader_named, recognise
from workloads.traces.source import Source


def read(path: Path, *, mapping: ColumnMapping | None = None, format: str | None = None) -> ReadResult:
    """Read a file whose format is told by its content.

    Plain, gzip, bzip2 and xz files are told by their first bytes, whatever their names (zstd too, on Python 3.14).

    Args:
        mapping: column names and time unit of a request table; makes the file one.
        format: a reader's name, for a file that is not recognised or could be two things.

    Raises:
        BadInput: the file is not a trace, or a row of it is broken; names file, line and field.
        BadUsage: no such format.
    """
    chosen = reader_named(format) if format is not None else None
    probed = probe(Source(Path(path)))
    if chosen is None:
        chosen = reader_named("requests") if mapping is not None else recognise(probed)
    return chosen.read(probed, mapping)
