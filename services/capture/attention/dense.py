"""Torch SDPA over the whole padded cache with an additive mask: works everywhere, reads every slot up to capacity.

A padded row therefore costs as much as a real one. Where lengths matter for time, `FlashAttention` is used instead.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig


class DenseAttention(DecodeAttention):
    name: ClassVar[str] = "torch-sdpa-dense"

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
        # The mask needs every row at a place of its own, so a pool is never shared here.
        super().__init__(config, rows=rows, capacity=capacity, dtype=dtype, device=device)
        self._mask = torch.zeros((rows, capacity), dtype=dtype, device=device)
        self._token = torch.arange(capacity, device=device)

    def plan(self, positions: Tensor, lengths: Tensor, host_lengths: Tensor) -> None:
        self.plan_slots(positions, lengths)
        mask = self._mask[: len(positions)]
        mask.zero_().masked_fill_(self._token >= lengths[:, None], float("-inf"))

    def arguments(self, size: int, lengths: Tensor) -> tuple[Tensor, ...]:
        tokens = size * self.cache.capacity
        return self._slots[:size], self._mask[:size], self.cache.keys[:, :tokens], self.cache.values[:, :tokens]

    def over(self, *tensors: Tensor) -> Attention:
        return _DenseStep(*tensors)


class _DenseStep:
    def __init__(self, slots: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> None:
        self.slots, self.keys, self.values = slots, keys, values
        self.mask = mask[:, None, None, :]

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys = self.keys[layer].index_copy_(0, self.slots, key)
        values = self.values[layer].index_copy_(0, self.slots, value)
        rows, heads, kv_heads = len(query), query.shape[1], key.shape[1]
        # A group of query heads shares one key head: they become its query positions, and nothing is expanded.
        grouped = query.unflatten(1, (kv_heads, heads // kv_heads))
        keys, values = (x.unflatten(0, (rows, -1)).transpose(1, 2) for x in (keys, values))
        return F.scaled_dot_product_attention(grouped, keys, values, attn_mask=self.mask).flatten(1, 2)
