"""ShapedTable: rows that an expression makes out of JSON, for formats whose requests are not one flat object a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import polars as pl

from workloads.traces.json_frames import LINE
from workloads.traces.table import SAMPLE_ROWS, Chunk, Table

Frames = Callable[[], Iterator[pl.DataFrame]]


class ShapedTable(Table):
    """Request columns computed block by block.

    Args:
        frames: starts over at every call; frames hold the columns `names` and `line`.
        names: the columns.
    """

    kind = "JSON"

    def __init__(self, frames: Frames, names: tuple[str, ...]) -> None:
        self._frames = frames
        self.names = names

    @cached_property
    def sample(self) -> tuple[Mapping[str, object], ...]:  # type: ignore[override]
        first = next((frame for frame in self._frames() if frame.height), None)
        return () if first is None else tuple(first.head(SAMPLE_ROWS).to_dicts())

    def chunks(self, columns: Mapping[str, str]) -> Iterator[Chunk]:
        for frame in self._frames():
            lines = frame[LINE].to_numpy()
            if len(lines):
                yield Chunk(
                    frame.select(pl.col(name).alias(role) for role, name in columns.items()),
                    lambda row, lines=lines: int(lines[row]),  # type: ignore[misc]
                    int(lines[0]) if lines[-1] - lines[0] == len(lines) - 1 else None,
                )
