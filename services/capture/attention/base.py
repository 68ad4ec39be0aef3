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

from services.capture.attention.kv_cache import KvCache
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig


class DecodeAttention(ABC):
    """One new token per row over a `KvCache`.

    Args:
        rows: largest step size.
        capacity: tokens per row, a multiple of 16.
    """

    name: ClassVar[str]

    def __init__(
        self, config: ModelConfig, *, rows: int, capacity: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.config = config
        self.cache = KvCache(config, rows=rows, capacity=capacity, dtype=dtype, device=device)
        self._first_slot = torch.arange(rows, device=device) * capacity
        self._slots = self._first_slot.clone()

    @abstractmethod
    def plan(self, positions: Tensor, lengths: Tensor) -> None:
        """Prepare a step of `len(positions)` rows, padding included; implementations call `plan_slots`.

        Args:
            positions: int64 [size], where each row's new token is written.
            lengths: int32 [size], tokens each row attends to, the new one included.
        """

    @abstractmethod
    def arguments(self, size: int, lengths: Tensor) -> tuple[Tensor, ...]:
        """Every tensor that `over` reads or writes at this size; same addresses at every call."""

    @staticmethod
    @abstractmethod
    def over(*tensors: Tensor) -> Attention:
        """The capturable part over the tensors of `arguments`."""

    def plan_slots(self, positions: Tensor) -> None:
        size = len(positions)
        torch.add(self._first_slot[:size], positions, out=self._slots[:size])
