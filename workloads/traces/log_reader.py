"""LogReader: what every engine log format shares, from candidate lines to a StepTrace with its counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import polars as pl

from workloads.arrays import I64
from workloads.histogram import Origin, Unit
from workloads.traces.base import Probe, Reader
from workloads.traces.json_table import JsonTable
from workloads.traces.log_lines import candidate_lines, pieces, since_first
from workloads.traces.mapping import ColumnMapping
from workloads.traces.observer import Observer
from workloads.traces.prefetch import mapped_ahead
from workloads.traces.records import EngineObservation, ReadResult, StepTrace
from workloads.traces.source import Source
from workloads.traces.step_rows import CHUNK_ROWS, STEP_ROW, Gathered, Tally, busiest_engine

UNREADABLE = "unreadable line"
USUAL_FROM_BYTES = 64 << 20
"""How far into a log the quick way begins: compiling it costs seconds where it was never used before."""
THREADS = 2
"""Pieces of a log that are parsed at a time; what follows is one thread's work, which more would not hasten."""

__all__ = ["STEP_ROW", "UNREADABLE", "Evidence", "LogReader"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What kind of record the rows of a log are.

    Attributes:
        wraps_s: period of the log's clock where it has no date or year.
    """

    origin: Origin
    sample_every_steps: int | None = None
    sample_every_s: float | None = None
    family_origins: tuple[Origin, ...] | None = None
    wraps_s: float | None = None
    notes: tuple[str, ...] = field(default=())


class LogReader(Reader):
    """An engine log. Lines that cannot be read are counted, not fatal: logs tear lines under load."""

    certainty: ClassVar[int]
    families: ClassVar[tuple[str, ...]]
    units: ClassVar[tuple[Unit, ...]]
    writers: ClassVar[str] = "engines"
    """What a value of the column `engine` names, for people."""

    @abstractmethod
    def observer(self) -> Observer:
        """A fresh collector of what the log says about the engine."""

    @abstractmethod
    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Candidate lines (`line`, `text`) -> rows with the columns of STEP_ROW, plus any of the reader's own."""

    def usual_rows(self, data: bytes, first_line: int) -> tuple[pl.DataFrame, bytes, I64] | None:
        """A quick way for lines of the usual shape: (rows as `extract` makes them, all other lines, their numbers);
        None where the format has none."""
        return None

    def settle(self, rows: pl.DataFrame, observation: EngineObservation) -> pl.DataFrame:
        """Consecutive rows of all engines -> the same rows with their final `reason` and what neighbours tell of them
        (step times, which rank's row counts). Called with a part of the log at a time."""
        return rows

    def one_engine(self, rows: pl.DataFrame, tally: Tally) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """Kept rows of the whole log -> those of one engine, and what to say about it."""
        return busiest_engine(rows, tally, self.writers)

    @abstractmethod
    def evidence(self, rows: pl.DataFrame, observation: EngineObservation) -> Evidence:
        """What the kept rows of one engine are evidence of."""

    def recognise(self, probe: Probe) -> int:
        if probe.source.is_parquet or (isinstance(probe.table, JsonTable) and not self._in_head(probe)):
            return 0
        return self.certainty if self._found(probe) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source, observer, gathered = probe.source, self.observer(), Gathered()
        for rows in self._chunks(source, observer):
            gathered.add(self.settle(rows, observer.result()))
        if not gathered.tally.read:
            raise source.bad(f"no line of this log is a step ({self.description})")
        kept = gathered.frame()
        if kept.is_empty():
            told = gathered.tally.told()
            raise source.bad(f"none of the log's {gathered.tally.read} step lines can be used ({told})")
        observation = observer.result()
        kept, notes = self.one_engine(kept, gathered.tally)
        found = self.evidence(kept, observation)
        if gathered.merged:
            notes += ("equal steps of neighbouring lines were joined into one row each: the log is long",)
        trace = self._trace(kept, found)
        return ReadResult(
            self.name, "steps", gathered.tally.result(), trace, observation, (*notes, *observer.notes(), *found.notes)
        )

    def _chunks(self, source: Source, observer: Observer) -> Iterator[pl.DataFrame]:
        def parsed(piece: tuple[int, int, bytes]) -> tuple[pl.DataFrame, pl.DataFrame]:
            done, first_line, data = piece
            return self._rows(data, first_line, observer.needles, usual=done > USUAL_FROM_BYTES)

        parts: list[pl.DataFrame] = []
        waiting = 0
        for told, rows in mapped_ahead(parsed, _measured(pieces(source)), THREADS):
            observer.see(told)
            parts.append(rows)
            waiting += rows.height
            if waiting >= CHUNK_ROWS:
                yield pl.concat(parts)
                parts, waiting = [], 0
        if waiting:
            yield pl.concat(part for part in parts if part.height)

    def _rows(
        self, data: bytes, first_line: int, needles: Sequence[str], *, usual: bool
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """(lines that may tell of the engine, rows of the steps) of whole lines."""
        quick = self.usual_rows(data, first_line) if usual else None
        markers = [marker.decode() for marker in self.markers]
        rest, numbers = (data, first_line) if quick is None else quick[1:]
        lines = candidate_lines(rest, numbers, [*markers, *needles])
        steps = pl.col("text").str.contains_any(markers)
        rows, told = self.extract(lines.filter(steps)), lines.filter(~steps)
        if quick is None:
            return told, rows
        return told, pl.concat([quick[0], rows]).sort("line") if rows.height else quick[0]

    def _found(self, probe: Probe) -> bool:
        return any(marker in probe.found_markers for marker in self.markers)

    def _in_head(self, probe: Probe) -> bool:
        return any(marker.decode() in probe.source.head for marker in self.markers)

    def _trace(self, rows: pl.DataFrame, found: Evidence) -> StepTrace:
        return step_trace(rows, found, self.families, self.units)


def _measured(parts: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
    """Each piece with the bytes that stand before it."""
    done = 0
    for first_line, data in parts:
        yield done, first_line, data
        done += len(data)


def step_trace(rows: pl.DataFrame, found: Evidence, families: tuple[str, ...], units: tuple[Unit, ...]) -> StepTrace:
    """Kept rows with the columns of STEP_ROW (but `reason`) as a trace."""
    return StepTrace(
        size=rows["size"].to_numpy().astype(np.int64),
        steps=rows["steps"].to_numpy().astype(np.int64),
        family_index=rows["family"].to_numpy().astype(np.int8),
        start_s=since_first(_floats(rows, "time_s"), wraps_s=found.wraps_s),
        step_ms=_floats(rows, "step_ms"),
        kv_tokens=_floats(rows, "kv_tokens"),
        padded_size=rows["padded_size"].to_numpy().astype(np.int64),
        fallback=rows["fallback"].to_numpy().astype(np.int8),
        families=families,
        units=units,
        origin=found.origin,
        sample_every_steps=found.sample_every_steps,
        sample_every_s=found.sample_every_s,
        family_origins=found.family_origins,
    )


def interval_s(rows: pl.DataFrame) -> float | None:
    """Commonest time between rows, for lines that are written by the clock; None with fewer than three times."""
    times = rows["time_s"].drop_nulls()
    gaps = times.diff().drop_nulls()
    gaps = gaps.filter(gaps > 0)
    middle = gaps.median() if len(gaps) >= 2 else None
    return round(middle, 1) or None if isinstance(middle, float) else None


def _floats(frame: pl.DataFrame, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)
