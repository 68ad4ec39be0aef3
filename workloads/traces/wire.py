"""A ReadResult as bytes between processes: JSON for the words, Parquet for the columns, nothing that executes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workloads.traces.arrivals import ArrivalProcess
from workloads.traces.columns import dump_traffic, load_traffic
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import EngineObservation, ReadResult, RowCount


def dump_result(read: ReadResult) -> tuple[bytes, bytes]:
    """Words (JSON) and columns (Parquet)."""
    head = {
        "format": read.format,
        "kind": read.kind,
        "rows": {key: dict(v) if isinstance(v, Mapping) else v for key, v in _fields(read.rows).items()},
        "notes": read.notes,
        "observation": None if read.observation is None else _fields(read.observation),
    }
    return json.dumps(head).encode(), dump_traffic(read.traffic)


def load_result(head: bytes, columns: bytes) -> ReadResult:
    """What `dump_result` wrote."""
    document: dict[str, Any] = json.loads(head)
    observation = document["observation"]
    return ReadResult(
        format=document["format"],
        kind=document["kind"],
        rows=RowCount(**document["rows"]),
        traffic=load_traffic(columns),
        observation=None if observation is None else _observation(observation),
        notes=tuple(document["notes"]),
    )


def dump_mapping(mapping: ColumnMapping | None) -> dict[str, Any] | None:
    """A mapping as JSON values."""
    return None if mapping is None else asdict(mapping)


def load_mapping(document: Mapping[str, Any] | None) -> ColumnMapping | None:
    """What `dump_mapping` gave."""
    if document is None:
        return None
    arrivals = document["arrivals"]
    return ColumnMapping(**{**document, "arrivals": None if arrivals is None else ArrivalProcess(**arrivals)})


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _observation(document: Mapping[str, Any]) -> EngineObservation:
    values = dict(document)
    values["lists"] = {name: tuple(sizes) for name, sizes in document["lists"].items()}
    if "memory_by_size_mib" in values:  # JSON has no whole numbers as keys
        values["memory_by_size_mib"] = {int(size): mib for size, mib in values["memory_by_size_mib"].items()}
    return EngineObservation(**values)
