"""Flash attention over contiguous slots, aware of each row's length: the kernel stops at the row's last token.

Uses the operator behind `torch.nn.attention.varlen`, which takes keys of fixed stride (`cum_seq_k`) with the used
length beside it (`seqused_k`); so nothing is copied, and lengths are data, not shapes: capturable.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.kv_cache import CacheLayout, KvCache
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig


class FlashAttention(DecodeAttention):
    name: ClassVar[str] = "torch-flash-varlen"

    def __init__(self, config: ModelConfig, layout: CacheLayout, cache: KvCache | None = None) -> None:
        super().__init__(config, layout, cache)
        rows = torch.arange(layout.rows + 1, dtype=torch.int32, device=layout.device)
        self._query_start = rows * layout.new_tokens

    def plan(self, positions: Tensor, lengths: Tensor, host_lengths: Tensor) -> None:
        self.plan_slots(positions, lengths, len(host_lengths))

    def arguments(self, size: int, lengths: Tensor) -> tuple[Tensor, ...]:
        starts = self._query_start[: size + 1], self._row_start[: size + 1]
        return self._slots[: size * self.tokens_per_row], lengths, *starts, self.cache.keys, self.cache.values

    def over(self, *tensors: Tensor) -> Attention:
        return _FlashStep(*tensors, longest=(self.tokens_per_row, self.cache.capacity))


class _FlashStep:
    def __init__(
        self,
        slots: Tensor,
        lengths: Tensor,
        query_start: Tensor,
        key_start: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        longest: tuple[int, int],
    ) -> None:
        self.slots, self.lengths, self.query_start, self.key_start = slots, lengths, query_start, key_start
        self.keys, self.values, self.longest = keys, values, longest

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys = self.keys[layer].index_copy_(0, self.slots, key)
        values = self.values[layer].index_copy_(0, self.slots, value)
        starts, causal = (self.query_start, self.key_start), self.longest[0] > 1
        return flash_forward(query, keys, values, starts, self.longest, causal, self.lengths)


def flash_forward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    starts: tuple[Tensor, Tensor],
    longest: tuple[int, int],
    causal: bool,
    lengths: Tensor | None = None,
) -> Tensor:
    """Attention of packed sequences; with `causal` the last query sees the last key.

    Args:
        query: [T, heads, D]; keys, values: [S, kv_heads, D]; bfloat16 or float16.
        starts: int32 [n + 1] each, first row of every sequence in query and keys.
        longest: most queries and most keys of a sequence.
        lengths: int32 [n], keys in use per sequence; None uses all.
    """
    output: Tensor = torch.ops.aten._flash_attention_forward(
        query,
        keys,
        values,
        starts[0],
        starts[1],
        longest[0],
        longest[1],
        0.0,
        causal,
        False,
        scale=query.shape[-1] ** -0.5,
        seqused_k=lengths,
    )[0]
    return output.view(query.shape)


def flash_supported(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernel takes this shape here: CUDA of Ampere or newer, 16-bit floats, head size a multiple of 8."""
    return (
        device.type == "cuda"
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and dtype in (torch.bfloat16, torch.float16)
        and config.head_dim % 8 == 0
        and config.head_dim <= 256
    )
