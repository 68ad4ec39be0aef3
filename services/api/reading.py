"""Reads an uploaded file in one of the API's reader children."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from services.reader_pool import ReaderPool, ReadLimits
from services.settings import Settings
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult

__all__ = ["ReadLimits", "limits_of", "pool_of", "read_in_child"]


def limits_of(settings: Settings) -> ReadLimits:
    """The limits that the settings give a reader."""
    return ReadLimits(settings.parse_timeout_s, settings.parse_memory_mib)


@cache
def pool_of(limits: ReadLimits) -> ReaderPool:
    """The children with these limits; they end with this process."""
    return ReaderPool(limits)


def read_in_child(
    path: Path, name: str, limits: ReadLimits, mapping: ColumnMapping | None = None, format: str | None = None
) -> ReadResult:
    """Read `path` as `workloads.traces.read` does; messages call the file `name`.

    Raises:
        BadInput: not understood, or reading took more time or memory than allowed.
        BadUsage: no such format.
    """
    return pool_of(limits).read(path, name, mapping, format)
