"""PrefixBlocks: which blocks of prompt tokens requests share, as traces with block hashes tell it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.arrays import I64, frozen
from workloads.errors import BadInput


@dataclass(frozen=True, slots=True)
class PrefixBlocks:
    """Block ids per request, one after another; equal ids are equal prefixes up to the end of that block.

    Attributes:
        block_tokens: tokens of a block; the last block of a prompt may hold fewer.
        ids: int64 [T].
        starts: int64 [N + 1]; the blocks of request i are `ids[starts[i]:starts[i + 1]]`.
    """

    block_tokens: int
    ids: I64
    starts: I64

    def __post_init__(self) -> None:
        if self.block_tokens < 1:
            raise BadInput("must be at least 1", field="block_tokens")
        if len(self.starts) == 0 or int(self.starts[0]) != 0 or int(self.starts[-1]) != len(self.ids):
            raise BadInput("block ids and their starts do not belong together", field="starts")
        for column in (self.ids, self.starts):
            frozen(column)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, requests: I64) -> PrefixBlocks:
        """The blocks of these requests, by index, in that order."""
        first, counts = self.starts[requests], np.diff(self.starts)[requests]
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        picked = np.arange(starts[-1]) - np.repeat(starts[:-1], counts) + np.repeat(first, counts)
        return PrefixBlocks(self.block_tokens, self.ids[picked], starts)

    def numbered(self) -> tuple[I64, int]:
        """The ids as 0..D-1 [T], and D."""
        distinct, numbers = np.unique(self.ids, return_inverse=True)
        return numbers.astype(np.int64), len(distinct)
