"""What a decoder asks of attention, and the plain form without a cache that the tests use."""

from __future__ import annotations

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor


class Attention(Protocol):
    """Attention of one step over whatever keys and values it keeps.

    Implementations own the KV cache, so that a decoder holds weights only. Everything data-dependent is planned
    before the step; `run` must be capturable: fixed shapes, no synchronisation.
    """

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Store key and value [T, kv_heads, D] of the step's T tokens and attend with query [T, heads, D].

        Returns:
            [T, heads, D].
        """
        ...


class CausalAttention:
    """All T tokens are one sequence from position 0; nothing is kept."""

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        group = query.shape[1] // key.shape[1]
        q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (query, key, value))
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(0).transpose(0, 1)
