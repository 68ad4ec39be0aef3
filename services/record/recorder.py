"""Recorder: the file that live telemetry is written to, line by line, so that a kill loses nothing that was seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from workloads.errors import BadUsage
from workloads.traces.records import EngineObservation
from workloads.traces.step_record import RecordHead, gap_line, head_line, observation_line, row_line


@dataclass(slots=True)
class Recorded:
    """What was written so far."""

    rows: int = 0
    steps: int = 0
    gaps: int = 0
    gap_s: float = 0.0


class Recorder:
    """Writes one step record; the head is written with the first row, when it is known what the rows are.

    Raises:
        BadUsage: the file exists, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.written = Recorded()
        self._head: RecordHead | None = None
        self._observation = EngineObservation()
        self._waiting: list[str] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("x", encoding="utf-8")
        except FileExistsError:
            raise BadUsage(f"{path} exists; name a new file", field="--out") from None
        except OSError as error:
            raise BadUsage(f"cannot write {path}: {error.strerror}", field="--out") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def head(self, head: RecordHead) -> None:
        """Say what the rows are; the first call counts."""
        if self._head is None:
            self._head = head
            self._write([head_line(head), *self._waiting])
            self._waiting.clear()

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add steps; `head` comes first."""
        lines = []
        for row in rows:
            lines.append(row_line(row))
            self.written.steps += int(row.get("steps") or 1)
        self.written.rows += len(lines)
        self._write(lines)

    def gap(self, from_s: float, to_s: float, reason: str) -> None:
        """Say that nothing could be seen between two moments (Unix seconds)."""
        self.written.gaps += 1
        self.written.gap_s += max(0.0, to_s - from_s)
        self._write([gap_line(from_s, to_s, reason)])

    def observe(self, observation: EngineObservation) -> None:
        """Say what is known of the engine, if that is more than before."""
        if observation != self._observation:
            self._observation = observation
            self._write([observation_line(observation)])

    def _write(self, lines: list[str]) -> None:
        if self._head is None:
            self._waiting += lines
            return
        self._file.writelines(lines)
        self._file.flush()
