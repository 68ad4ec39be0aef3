"""DecodeAttention: the interface of a decode-attention backend, in two parts as engines have it.

A row adds one token, or q of them where an engine verifies drafts: then its last query sees its last token.

`plan` runs outside the graph before every step and turns positions and lengths into whatever the kernel reads.
`over(...)` gives the part that runs inside: it touches only the tensors of `arguments`, whose addresses never change.
Padded rows have length one and write where no real row ever reads, so they cost attention almost nothing and touch no
real row, of this step or another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from services.capture.attention.kv_cache import PAGE_TOKENS, CacheLayout, KvCache, rounded
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig


class DecodeAttention(ABC):
    """The new tokens of every row over a `KvCache`.

    Args:
        cache: one that others use too; None makes one of this layout.
    """

    name: ClassVar[str]

    def __init__(self, config: ModelConfig, layout: CacheLayout, cache: KvCache | None = None) -> None:
        self.config, self.tokens_per_row = config, layout.new_tokens
        self.cache = KvCache(config, layout) if cache is None else cache
        rows = torch.arange(layout.rows + 1, dtype=torch.int32, device=layout.device)
        self._row_start = rows * layout.capacity
        self._padding_start: Tensor | None = None
        if self.cache.packed:
            self._row_start.zero_()
            if layout.padding_tokens:
                self._padding_start = rows * rounded(layout.new_tokens) + self.cache.pool_tokens
        self._slots = self._row_start[: layout.rows].long().repeat_interleave(layout.new_tokens)

    @classmethod
    def unsplit_rows(cls, config: ModelConfig, device: torch.device) -> int | None:
        """Sizes of at least so many rows are read a row a stream, so that a step waits for its longest row; fewer rows
        are split over the GPU. None where that is not known of the kernel."""
        return None

    @abstractmethod
    def plan(self, positions: Tensor, lengths: Tensor, host_lengths: Tensor) -> None:
        """Prepare a step of `len(lengths)` rows, padding included; implementations call `plan_slots`.

        Args:
            positions: int64 [size x q], where each new token is written, row after row.
            lengths: int32 [size], tokens each row attends to, the new ones included.
            host_lengths: int32 [n] on the host, lengths of the n <= size real rows; padded rows have length q.
        """

    @abstractmethod
    def arguments(self, size: int, lengths: Tensor) -> tuple[Tensor, ...]:
        """Every tensor that `over` reads or writes at this size; same addresses at every call."""

    @abstractmethod
    def over(self, *tensors: Tensor) -> Attention:
        """The capturable part over the tensors of `arguments`."""

    def plan_slots(self, positions: Tensor, lengths: Tensor, real: int) -> None:
        """Where every row begins (in a packed cache) and where its new tokens go.

        Args:
            real: the first so many rows are no padding.
        """
        size, q = len(lengths), self.tokens_per_row
        if self.cache.packed:
            pages = torch.div(lengths + (PAGE_TOKENS - 1), PAGE_TOKENS, rounding_mode="floor")
            torch.cumsum(pages * PAGE_TOKENS, 0, dtype=torch.int32, out=self._row_start[1 : size + 1])
            if self._padding_start is not None and real < size:
                self._row_start[real : size + 1] = self._padding_start[: size + 1 - real]
        slots = self._slots[: size * q].view(size, q)
        torch.add(self._row_start[:size, None], positions.view(size, q), out=slots)

    def row_starts(self, rows: int) -> list[int]:
        """Where each of the first rows of the planned step begins in the cache."""
        starts: list[int] = self._row_start[:rows].tolist()
        return starts
