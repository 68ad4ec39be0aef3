"""The column of block hashes of a request file, gathered chunk by chunk into PrefixBlocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from workloads.arrays import I64
from workloads.errors import BadInput
from workloads.traces.prefix_blocks import PrefixBlocks
from workloads.traces.table import Chunk

ROLE = "blocks"


@dataclass(slots=True)
class BlockColumn:
    """Ids of the rows that were kept so far."""

    name: str
    block_tokens: int
    _ids: list[I64] = field(default_factory=list)
    _counts: list[I64] = field(default_factory=list)

    def add(self, chunk: Chunk, kept: I64 | None, bad: Callable[..., BadInput]) -> None:
        """Take the ids of one chunk's rows, of all of them where `kept` is None.

        Raises:
            BadInput: a row without a list of whole numbers.
        """
        column = chunk.frame[ROLE]
        if kept is not None:
            column = column[kept]
        missing = column.is_null() | column.list.eval(pl.element().is_null()).list.any()
        if missing.any():
            row = int(missing.arg_true()[0])
            row = row if kept is None else int(kept[row])
            raise bad("the list of block ids is missing or has a gap", line=chunk.line_of(row), field=self.name)
        self._counts.append(column.list.len().to_numpy().astype(np.int64))
        self._ids.append(column.explode(empty_as_null=False).to_numpy().astype(np.int64))

    def finish(self) -> PrefixBlocks:
        """All rows that were added, in that order."""
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.concatenate(self._counts))))
        return PrefixBlocks(self.block_tokens, np.concatenate(self._ids), starts)
