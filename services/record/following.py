"""Recording from a growing engine log, with the readers that read finished ones."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl

from services.record.polling import Stop
from services.record.recorder import Recorder
from services.record.tail import LogTail
from workloads.traces.log_lines import candidate_lines
from workloads.traces.log_reader import LogReader
from workloads.traces.observer import Observer
from workloads.traces.records import EngineObservation
from workloads.traces.registry import READERS
from workloads.traces.step_record import RecordHead

LOOK_EVERY_S = 0.5
CARRY_ROWS = 64
"""Rows before the new ones that are looked at again: step times come from neighbouring lines."""
START_BYTES = 16 << 20
"""Start-up output that is kept until the first step line tells which engine writes."""
CUMULATIVE = ("vllm-batchsize-times",)


def follow(path: Path, recorder: Recorder, stop: Stop) -> None:
    """Record the steps that `path` has and gains, until told to stop.

    Raises:
        BadInput: the file cannot be opened.
    """
    tail = LogTail(path)
    log = GrowingLog(str(path), recorder)
    last_s, lost = time.time(), None
    try:
        while True:
            grown = tail.read()
            for event in grown.events:
                lost = lost or event
            if grown.lines:
                if lost is not None:
                    recorder.gap(last_s, time.time(), lost)
                    lost = None
                log.add(grown.lines)
                last_s = time.time()
            elif stop(LOOK_EVERY_S):
                break
        if lost is not None:
            recorder.gap(last_s, time.time(), lost)
        log.finish()
    finally:
        tail.close()


class GrowingLog:
    """Turns whole lines into rows; the last line waits for its successor, which may tell its time."""

    def __init__(self, source: str, recorder: Recorder) -> None:
        self._source = source
        self._recorder = recorder
        self._reader: LogReader | None = None
        self._observer: Observer | None = None
        self._start = b""
        self._line = 1
        self._carry: pl.DataFrame | None = None
        self._told = 0

    def add(self, data: bytes) -> None:
        """Whole lines, each ended by a newline."""
        if self._reader is None:
            self._start = (self._start + data)[-START_BYTES:]
            self._reader = _reader_of(self._start)
            if self._reader is None:
                return
            self._observer = self._reader.observer()
            data, self._start = self._start, b""
        assert self._observer is not None
        needles = [marker.decode() for marker in self._reader.markers]
        lines = candidate_lines(data, self._line, [*needles, *self._observer.needles])
        self._line += data.count(b"\n")
        steps = pl.col("text").str.contains_any(needles)
        self._observer.see(lines.filter(~steps))
        rows = self._reader.extract(lines.filter(steps))
        if rows.height:
            self._emit(rows, hold=True)

    def finish(self) -> None:
        """Write the row that waited."""
        if self._carry is not None:
            self._emit(self._carry.clear(), hold=False)

    def _emit(self, rows: pl.DataFrame, *, hold: bool) -> None:
        assert self._reader is not None
        assert self._observer is not None
        rows = rows if self._carry is None else pl.concat([self._carry, rows])
        self._carry = rows.tail(CARRY_ROWS)
        seen = self._observer.result()
        settled = self._reader.settle(rows, seen)
        last = int(settled["line"].max() or 0)  # type: ignore[arg-type]
        kept = settled.filter(pl.col("reason").is_null(), pl.col("line") > self._told)
        if hold:
            kept = kept.filter(pl.col("line") < last)
        self._told = last - 1 if hold else last
        if kept.height:
            kept = kept.with_columns(pl.col("engine").fill_null("").cast(pl.String), pl.lit(1).alias("lines"))
            self._recorder.head(self._head(self._reader, kept, seen))
            self._recorder.observe(seen)
            self._recorder.rows(kept.iter_rows(named=True))

    def _head(self, reader: LogReader, rows: pl.DataFrame, seen: EngineObservation) -> RecordHead:
        found = reader.evidence(rows, seen)
        return RecordHead(
            self._source,
            reader.families,
            reader.units,
            found.origin,
            found.sample_every_steps,
            found.sample_every_s,
            found.family_origins,
        )


def _reader_of(data: bytes) -> LogReader | None:
    """The surest reader whose lines are there."""
    readers = [reader for reader in READERS if isinstance(reader, LogReader) and reader.name not in CUMULATIVE]
    found = [reader for reader in readers if any(marker in data for marker in reader.markers)]
    return max(found, key=lambda reader: reader.certainty, default=None)
