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
        """Tokens that real rows have room for."""
        most = self.rows * self.capacity
        return most if self.tokens is None else min(rounded(self.tokens), most)

    @property
    def padding_tokens(self) -> int:
        """Room beside a shared pool where padded rows keep what they write, whole pages for each; 0 where every row has
        a page of its own anyway."""
        page_tokens = rounded(self.new_tokens)
        return 0 if self.tokens is None or self.capacity <= page_tokens else self.rows * page_tokens


class KvCache:
    """Keys and values of the rows of a layout.

    A layout with `tokens` makes a *packed* pool: every step lays its rows' pages out anew, one row behind the other,
    as a paged engine shares its memory. Otherwise token t of row i is always at i * capacity + t.

    Padded rows are no part of that: they are all alike, and what they write would be a common part of the contexts of
    whatever row gets their pages next. Rows of a mixture of experts then choose the same experts (seen on an H200:
    16 rows of Qwen3-30B-A3B in 19 ms instead of 23). They have pages behind the pool, as engines write padding to a
    slot that nobody reads.

    Attributes:
        pool_tokens: where these pages begin.
        keys, values: [layers, tokens, kv_heads, D].
    """

    def __init__(self, config: ModelConfig, layout: CacheLayout) -> None:
        self.rows, self.capacity = layout.rows, layout.capacity
        self.packed, self.pool_tokens = layout.tokens is not None, layout.all_tokens
        self.tokens = self.pool_tokens + layout.padding_tokens
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
