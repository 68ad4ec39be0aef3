"""Torch SDPA over the whole padded cache with an additive mask: works everywhere, reads every slot up to capacity.

A padded row therefore costs as much as a real one. Where lengths matter for time, `FlashAttention` is used instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.kv_cache import CacheLayout, KvCache
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig


class DenseAttention(DecodeAttention):
    name: ClassVar[str] = "torch-sdpa-dense"

    def __init__(self, config: ModelConfig, layout: CacheLayout, cache: KvCache | None = None) -> None:
        # The mask needs every row at a place of its own, so a pool is never shared here.
        super().__init__(config, replace(layout, tokens=None), cache)
        shape = (layout.rows * layout.new_tokens, layout.capacity)
        self._mask = torch.zeros(shape, dtype=layout.dtype, device=layout.device)
        self._token = torch.arange(layout.capacity, device=layout.device)

    def plan(self, positions: Tensor, lengths: Tensor, host_lengths: Tensor) -> None:
        self.plan_slots(positions, lengths, len(host_lengths))
        mask = self._mask[: len(positions)]
        mask.zero_().masked_fill_(self._token > positions[:, None], float("-inf"))

    def arguments(self, size: int, lengths: Tensor) -> tuple[Tensor, ...]:
        tokens, new = size * self.cache.capacity, size * self.tokens_per_row
        return self._slots[:new], self._mask[:new], self.cache.keys[:, :tokens], self.cache.values[:, :tokens]

    def over(self, *tensors: Tensor) -> Attention:
        return _DenseStep(*tensors, tokens_per_row=self.tokens_per_row)


class _DenseStep:
    def __init__(self, slots: Tensor, mask: Tensor, keys: Tensor, values: Tensor, *, tokens_per_row: int) -> None:
        self.slots, self.keys, self.values, self.q = slots, keys, values, tokens_per_row
        self.mask = mask.unflatten(0, (-1, tokens_per_row))

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys = self.keys[layer].index_copy_(0, self.slots, key)
        values = self.values[layer].index_copy_(0, self.slots, value)
        q, kv_heads, group = self.q, key.shape[1], query.shape[1] // key.shape[1]
        rows = len(query) // q
        # A group of query heads shares one key head: they become its query positions, and nothing is expanded.
        grouped = query.view(rows, q, kv_heads, group, -1).permute(0, 2, 3, 1, 4).flatten(2, 3)
        keys, values = (x.unflatten(0, (rows, -1)).transpose(1, 2) for x in (keys, values))
        mask = self.mask[:, None, None].expand(-1, 1, group, -1, -1).flatten(2, 3)
        attended: Tensor = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
        return attended.view(rows, kv_heads, group, q, -1).permute(0, 3, 1, 2, 4).reshape(query.shape)
