"""Attention of one prompt's new tokens over a cached prefix and over themselves."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from services.capture.attention.flash import flash_forward
from services.capture.attention.kv_cache import KvCache


class PrefillAttention:
    """Writes the new keys and values behind the prefix of row 0 and attends causally.

    Args:
        cache: one row with room for prefix and new tokens.
        flash: use the flash kernel; otherwise SDPA, with an explicit mask where there is a prefix.
    """

    def __init__(self, cache: KvCache, *, tokens: int, prefix_tokens: int, flash: bool) -> None:
        self.cache, self.tokens, self.prefix_tokens, self.flash = cache, tokens, prefix_tokens, flash
        self.end = prefix_tokens + tokens
        device = cache.keys.device
        self.starts = (
            torch.tensor([0, tokens], dtype=torch.int32, device=device),
            torch.tensor([0, self.end], dtype=torch.int32, device=device),
        )
        self.mask: Tensor | None = None
        if not flash and prefix_tokens:
            self.mask = torch.ones(tokens, self.end, dtype=torch.bool, device=device).tril(prefix_tokens)

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self.cache.keys[layer, self.prefix_tokens : self.end].copy_(key)
        self.cache.values[layer, self.prefix_tokens : self.end].copy_(value)
        keys, values = self.cache.keys[layer, : self.end], self.cache.values[layer, : self.end]
        if self.flash:
            return flash_forward(query, keys, values, self.starts, (self.tokens, self.end), True)
        group = query.shape[1] // key.shape[1]
        q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (query, keys, values))
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.mask is None)
        return out.squeeze(0).transpose(0, 1)
