"""DecodeAttention: the interface of a decode-attention backend, in two parts as engines have it.

`plan` runs outside the graph before every step and turns positions and lengths into whatever the kernel reads.
`over(...)` gives the part that runs inside: it touches only the tensors of `arguments`, whose addresses never change.
Padded rows have length one and write into their own slot, so they cost attention almost nothing and touch no real row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from services.capture.attention.kv_cache import PAGE_TOKENS, KvCache
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig


class DecodeAttention(ABC):
    """One new token per row over a `KvCache`.

    Args:
        rows: largest step size.
        capacity: tokens per row, a multiple of 16.
        tokens: size of a shared pool of pages; None gives every row its full capacity.
    """

    name: ClassVar[str]

    def __init__(
        self,
        config: ModelConfig,
        *,
        rows: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        tokens: int | None = None,
    ) -> None:
        self.config = config
        self.cache = KvCache(config, rows=rows, capacity=capacity, dtype=dtype, device=device, tokens=tokens)
        self._row_start = torch.arange(rows + 1, dtype=torch.int32, device=device) * capacity
        if self.cache.packed:
            self._row_start.zero_()
        self._slots = self._row_start[:rows].long()

    @abstractmethod
    def plan(self, positions: Tensor, lengths: Tensor, host_lengths: Tensor) -> None:
        """Prepare a step of `len(positions)` rows, padding included; implementations call `plan_slots`.

        Args:
            positions: int64 [size], where each row's new token is written.
            lengths: int32 [size], tokens each row attends to, the new one included.
            host_lengths: int32 [n] on the host, lengths of the n <= size real rows; padded rows have length one.
        """

    @abstractmethod
    def arguments(self, size: int, lengths: Tensor) -> tuple[Tensor, ...]:
        """Every tensor that `over` reads or writes at this size; same addresses at every call."""

    @abstractmethod
    def over(self, *tensors: Tensor) -> Attention:
        """The capturable part over the tensors of `arguments`."""

    def plan_slots(self, positions: Tensor, lengths: Tensor) -> None:
        """Where every row begins (in a packed cache) and where its new token goes."""
        size = len(positions)
        if self.cache.packed:
            pages = torch.div(lengths + (PAGE_TOKENS - 1), PAGE_TOKENS, rounding_mode="floor")
            torch.cumsum(pages * PAGE_TOKENS, 0, dtype=torch.int32, out=self._row_start[1 : size + 1])
        torch.add(self._row_start[:size], positions, out=self._slots[:size])

    def row_starts(self, rows: int) -> list[int]:
        """Where each of the first rows of the planned step begins in the cache."""
        starts: list[int] = self._row_start[:rows].tolist()
        return starts
