"""KvCache: real keys and values in contiguous slots, one per row of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from workloads.models.config import ModelConfig


class KvCache:
    """Keys and values of `rows` requests with room for `capacity` tokens each.

    Attributes:
        keys, values: [layers, rows * capacity, kv_heads, D]; token t of row i is at i * capacity + t.
    """

    def __init__(
        self, config: ModelConfig, *, rows: int, capacity: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.rows, self.capacity = rows, capacity
        shape = (config.layers, rows * capacity, config.kv_heads, config.head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)

    def randomise(self, seed: int) -> None:
        """Fill with normal values, so that attention reads real numbers of every row."""
        generator = torch.Generator(device=self.keys.device).manual_seed(seed)
        for layer in range(len(self.keys)):
            self.keys[layer].normal_(generator=generator)
            self.values[layer].normal_(generator=generator)

    def of_rows(self, layer: int, rows: int) -> tuple[Tensor, Tensor]:
        """(keys, values) of the first rows: [rows, capacity, kv_heads, D] each, views."""
        tokens = rows * self.capacity
        keys, values = self.keys[layer, :tokens], self.values[layer, :tokens]
        return keys.unflatten(0, (rows, self.capacity)), values.unflatten(0, (rows, self.capacity))


def rounded(tokens: int) -> int:
    """Capacity for a context: the next multiple of 16, which every kernel's alignment likes."""
    return -(-tokens // 16) * 16
