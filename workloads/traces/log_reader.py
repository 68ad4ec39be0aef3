"""LogReader: what every engine log format shares, from candidate lines to a StepTrace with its counts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from workloads.histogram import Origin, Unit
from workloads.traces.base import Probe, Reader
from workloads.traces.json_table import JsonTable
from workloads.traces.log_lines import candidate_lines, since_first
from workloads.traces.mapping import ColumnMapping
from workloads.traces.observer import Observer
from workloads.traces.records import EngineObservation, ReadResult, RowCount, StepTrace
from workloads.traces.source import Source

UNREADABLE = "unreadable line"

STEP_ROW = {
    "line": pl.Int64(),
    "family": pl.Int8(),
    "size": pl.Int64(),
    "steps": pl.Int64(),
    "time_s": pl.Float64(),
    "step_ms": pl.Float64(),
    "kv_tokens": pl.Float64(),
    "padded_size": pl.Int64(),
    "fallback": pl.Int8(),
    "engine": pl.String(),
    "reason": pl.String(),
}
"""What a candidate line becomes. `reason` is null for a row that is kept; `family` indexes `LogReader.families`."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """All rows of a log, and what the reader found out on the way.

    Attributes:
        wraps_s: period of the log's clock where it has no date or year.
    """

    frame: pl.DataFrame
    origin: Origin
    sample_every_steps: int | None = None
    wraps_s: float | None = None
    notes: tuple[str, ...] = ()


class LogReader(Reader):
    """An engine log. Lines that cannot be read are counted, not fatal: logs tear lines under load."""

    certainty: ClassVar[int]
    families: ClassVar[tuple[str, ...]]
    units: ClassVar[tuple[Unit, ...]]

    @abstractmethod
    def observer(self) -> Observer:
        """A fresh collector of what the log says about the engine."""

    @abstractmethod
    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Candidate lines (`line`, `text`) -> rows with the columns of STEP_ROW, plus any of the reader's own."""

    @abstractmethod
    def finish(self, rows: pl.DataFrame, observation: EngineObservation) -> StepRows:
        """Rows of the whole file -> rows with their final `reason`, and the kind of evidence they are."""

    def recognise(self, probe: Probe) -> int:
        if probe.source.is_parquet or (isinstance(probe.table, JsonTable) and not self._in_head(probe)):
            return 0
        return self.certainty if self._found(probe) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source, observer = probe.source, self.observer()
        needles = [marker.decode() for marker in self.markers]
        parts = []
        for lines in candidate_lines(source, [*needles, *observer.needles]):
            steps = pl.col("text").str.contains_any(needles)
            parts.append(self.extract(lines.filter(steps)))
            observer.see(lines.filter(~steps))
        rows = pl.concat(parts) if parts else pl.DataFrame(schema=STEP_ROW)
        if rows.is_empty():
            raise source.bad(f"no line of this log is a step ({self.description})")
        observation = observer.result()
        found = self.finish(rows, observation)
        return ReadResult(
            self.name, "steps", _count(found.frame), self._trace(source, found), observation, tuple(found.notes)
        )

    def _found(self, probe: Probe) -> bool:
        return any(marker in probe.found_markers for marker in self.markers)

    def _in_head(self, probe: Probe) -> bool:
        return any(marker.decode() in probe.source.head for marker in self.markers)

    def _trace(self, source: Source, found: StepRows) -> StepTrace:
        kept = found.frame.filter(pl.col("reason").is_null())
        if kept.is_empty():
            reasons = _count(found.frame).dropped
            told = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            raise source.bad(f"none of the log's {found.frame.height} step lines can be used ({told})")
        column = {name: kept[name].to_numpy() for name in kept.columns if name in _NUMERIC}
        return StepTrace(
            size=column["size"].astype(np.int64),
            steps=column["steps"].astype(np.int64),
            family_index=column["family"].astype(np.int8),
            start_s=since_first(_floats(kept, "time_s"), wraps_s=found.wraps_s),
            step_ms=_floats(kept, "step_ms"),
            kv_tokens=_floats(kept, "kv_tokens"),
            padded_size=column["padded_size"].astype(np.int64),
            fallback=column["fallback"].astype(np.int8),
            families=self.families,
            units=self.units,
            origin=found.origin,
            sample_every_steps=found.sample_every_steps,
        )


_NUMERIC = ("size", "steps", "family", "padded_size", "fallback")


def _floats(frame: pl.DataFrame, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)


def _count(frame: pl.DataFrame) -> RowCount:
    lost = (
        frame.filter(pl.col("reason").is_not_null())
        .group_by("reason", maintain_order=True)
        .agg(pl.len(), pl.col("line").min())
    )
    dropped = {reason: int(count) for reason, count, _ in lost.iter_rows()}
    first_line = {reason: int(line) for reason, _, line in lost.iter_rows()}
    return RowCount(frame.height, frame.height - sum(dropped.values()), dropped, first_line)


def keep_busiest_engine(rows: pl.DataFrame, what: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Leave one engine's rows in, the one with most of them; engines are never summed into one histogram.

    Args:
        rows: with `engine` (null is an engine of its own) and `reason`.
        what: how a line is told to belong to an engine, for the note.
    """
    live = rows.filter(pl.col("reason").is_null())
    named = live.with_columns(pl.col("engine").fill_null(""))
    totals = (
        named.group_by("engine", maintain_order=True)
        .agg(pl.len().alias("rows"), (pl.col("size") * pl.col("steps")).sum().alias("work"))
        .sort(["rows", "work"], descending=True, maintain_order=True)
    )
    if totals.height < 2:
        return rows, ()
    chosen = str(totals["engine"][0])
    other = pl.col("reason").is_null() & (pl.col("engine").fill_null("") != chosen)
    reason = pl.when(other).then(pl.lit("other engine")).otherwise(pl.col("reason"))
    note = (
        f"{totals.height} {what} write to this log; only {chosen or 'the one without a name'}, which has most rows, "
        "was kept, because engines must not be summed into one histogram"
    )
    return rows.with_columns(reason.alias("reason")), (note,)
