"""Step rows that do not come from log lines (scrapes, statistics, messages): plain rows to a ReadResult."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import polars as pl

from workloads.histogram import Unit
from workloads.traces.log_reader import Evidence, step_trace
from workloads.traces.records import EngineObservation, ReadResult
from workloads.traces.source import Source
from workloads.traces.step_rows import CHUNK_ROWS, STEP_ROW, Gathered, busiest_engine

StepRow = Mapping[str, Any]
"""Values of STEP_ROW columns; those left out get their neutral value."""
NEUTRAL: Mapping[str, Any] = {"family": 0, "steps": 1, "padded_size": 0, "fallback": -1, "line": 0}


def frame_of(rows: Sequence[StepRow]) -> pl.DataFrame:
    """Rows as columns of STEP_ROW."""
    filled = [{name: row.get(name, NEUTRAL.get(name)) for name in STEP_ROW} for row in rows]
    return pl.DataFrame(filled, schema=STEP_ROW)


def gather(rows: Iterable[StepRow]) -> Gathered:
    """Rows of any number, chunk by chunk."""
    gathered, rest = Gathered(), iter(rows)
    while chunk := list(islice(rest, CHUNK_ROWS)):
        gathered.add(frame_of(chunk))
    return gathered


def result_of(
    name: str,
    source: Source,
    gathered: Gathered,
    evidence: Callable[[pl.DataFrame], Evidence],
    *,
    families: tuple[str, ...],
    units: tuple[Unit, ...],
    writers: str,
    observation: EngineObservation | None = None,
) -> ReadResult:
    """One engine's rows as a trace.

    Raises:
        BadInput: no row can be used.
    """
    kept = gathered.frame()
    if kept.is_empty():
        told = gathered.tally.told()
        raise source.bad(f"none of its {gathered.tally.read} records is a step that can be used ({told})")
    kept, notes = busiest_engine(kept, gathered.tally, writers)
    found = evidence(kept)
    trace = step_trace(kept, found, families, units)
    return ReadResult(name, "steps", gathered.tally.result(), trace, observation, (*notes, *found.notes))
