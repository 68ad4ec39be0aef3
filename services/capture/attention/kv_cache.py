"""KvCache: real keys and values in pages of 16 tokens; a row's pages follow each other."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workloads.models.config import ModelConfig

PAGE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """How large a cache is and where.

    Attributes:
        rows: largest step size.
        capacity: tokens per row, a multiple of 16.
        tokens: size of a shared pool of pages; None gives every row its full capacity.
        new_tokens: what every row adds in a step: 1, or q where drafts are verified.
    """

    rows: int
    capacity: int
    dtype: torch.dtype
    device: torch.device
    tokens: int | None = None
    new_tokens: int = 1

    @property
    def all_tokens(self) -> int:
        """Tokens that the whole cache holds."""
        most = self.rows * self.capacity
        return most if self.tokens is None else min(rounded(self.tokens), most)


class KvCache:
    """Keys and values of the rows of a layout.

    A layout with `tokens` makes a *packed* pool: every step lays its rows' pages out anew, one row behind the other,
    as a paged engine shares its memory. Otherwise token t of row i is always at i * capacity + t.

    Attributes:
        keys, values: [layers, tokens, kv_heads, D].
    """

    def __init__(self, config: ModelConfig, layout: CacheLayout) -> None:
        self.rows, self.capacity = layout.rows, layout.capacity
        self.packed, self.tokens = layout.tokens is not None, layout.all_tokens
        shape = (config.layers, self.tokens, config.kv_heads, config.head_dim)
        self.keys = torch.zeros(shape, dtype=layout.dtype, device=layout.device)
        self.values = torch.zeros(shape, dtype=layout.dtype, device=layout.device)

    def randomise(self, seed: int) -> None:
        """Fill with normal values, so that attention reads real numbers of every row."""
        generator = torch.Generator(device=self.keys.device).manual_seed(seed)
        for layer in range(len(self.keys)):
            self.keys[layer].normal_(generator=generator)
            self.values[layer].normal_(generator=generator)

    def of_rows(self, layer: int, rows: int) -> tuple[Tensor, Tensor]:
        """(keys, values) of the first rows: [rows, capacity, kv_heads, D] each, views; of a packed cache only where
        a row is one page."""
        tokens = rows * self.capacity
        keys, values = self.keys[layer, :tokens], self.values[layer, :tokens]
        return keys.unflatten(0, (rows, self.capacity)), values.unflatten(0, (rows, self.capacity))


def rounded(tokens: int) -> int:
    """Capacity for a context: whole pages, which every kernel's alignment likes."""
    return -(-tokens // PAGE_TOKENS) * PAGE_TOKENS
