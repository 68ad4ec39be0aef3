"""Where rows stand in their file: lines of kept rows, counts and first lines of dropped ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workloads.arrays import I64
from workloads.traces.table import Chunk


@dataclass(slots=True)
class Dropped:
    """Rows left out, by reason."""

    counts: dict[str, int] = field(default_factory=dict)
    first_line: dict[str, int] = field(default_factory=dict)

    def count(self, reason: str, rows: int, line: int) -> None:
        """`rows` more for `reason`, the first of them on `line`."""
        self.counts[reason] = self.counts.get(reason, 0) + rows
        self.first_line.setdefault(reason, line)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(slots=True)
class RowLines:
    """Line of the n-th kept row, for messages; one number a chunk where rows are consecutive lines."""

    _parts: list[tuple[int, int | I64 | None]] = field(default_factory=list)
    _rows: int = 0

    def add(self, chunk: Chunk, kept: I64 | None) -> None:
        """The rows `kept` of a chunk (None: all) follow."""
        if chunk.first_line is None:
            where: int | I64 | None = None
        else:
            where = chunk.first_line if kept is None else chunk.first_line + kept
        self._parts.append((self._rows, where))
        self._rows += chunk.frame.height if kept is None else len(kept)

    def told(self, row: int) -> str:
        """` at line N`, or ` at kept row N` where lines were not followed."""
        index = int(np.searchsorted([start for start, _ in self._parts], row, side="right")) - 1
        start, where = self._parts[index]
        if where is None:
            return f"at kept row {row + 1}"
        return f"at line {where + row - start if isinstance(where, int) else where[row - start]}"
