"""Decoder: the computation that a CUDA graph captures, with projections fused as engines fuse them.

Tokens of a step are flat: [T], one row a token, as in vLLM and SGLang. A decode step of n requests has T = n; a
prefill of one prompt has T = its new tokens. The decoder holds weights only; keys and values belong to `Attention`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.models import rope
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig
from workloads.models.experts import ExpertBlock


class DecoderLayer(nn.Module):
    """One block: RMSNorm, fused q/k/v, optional head norm, rotary embedding, attention, RMSNorm, SwiGLU."""

    def __init__(self, config: ModelConfig, index: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.index = index
        self.eps = config.rms_norm_eps
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        hidden, inner = config.hidden_size, config.intermediate_size
        rotated = config.heads + config.kv_heads

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype), requires_grad=False)

        self.input_norm = weight(hidden)
        self.qkv = weight((rotated + config.kv_heads) * config.head_dim, hidden)
        self.qkv_bias = weight((rotated + config.kv_heads) * config.head_dim) if config.attention_bias else None
        # Query and key norms side by side, one row a head, so that one kernel serves both.
        self.head_norm = weight(rotated, config.head_dim) if config.qk_norm else None
        self.output = weight(hidden, config.heads * config.head_dim)
        self.output_bias = weight(hidden) if config.output_bias else None
        self.inner_norm = weight(hidden)
        self.experts = ExpertBlock(config.experts, hidden, device, dtype) if config.experts is not None else None
        if self.experts is None:
            self.gate_up = weight(2 * inner, hidden)
            self.down = weight(hidden, inner)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attention: Attention) -> Tensor:
        """x [T, hidden], cos and sin [T, 1, D] -> [T, hidden]."""
        return self.after(x, attention.run(self.index, *self.before(x, cos, sin)))

    def before(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Up to attention: query [T, heads, D], key and value [T, kv_heads, D]."""
        normed = F.rms_norm(x, (x.shape[-1],), self.input_norm, self.eps)
        qkv = F.linear(normed, self.qkv, self.qkv_bias).view(len(x), -1, self.head_dim)
        rotated, value = qkv.split((self.heads + self.kv_heads, self.kv_heads), dim=1)
        if self.head_norm is not None:
            rotated = F.rms_norm(rotated, (self.head_dim,), None, self.eps) * self.head_norm
        query, key = rope.apply(rotated, cos, sin).split((self.heads, self.kv_heads), dim=1)
        return query, key, value

    def after(self, x: Tensor, attended: Tensor) -> Tensor:
        """From attention [T, heads, D] and the block's own input to the next block's input."""
        x = x + F.linear(attended.reshape(len(x), -1), self.output, self.output_bias)
        normed = F.rms_norm(x, (x.shape[-1],), self.inner_norm, self.eps)
        if self.experts is not None:
            mixed: Tensor = self.experts(normed)
            return x + mixed
        gate, up = F.linear(normed, self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Decoder(nn.Module):
    """A decoder-only transformer of a `ModelConfig`.

    Args:
        positions: number of positions in the rotary table; every position of a step must be below it.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig, *, positions: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype), requires_grad=False)

        self.embedding = weight(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config, i, device, dtype) for i in range(config.layers))
        self.final_norm = weight(config.hidden_size)
        self.head = self.embedding if config.tied_embeddings else weight(config.vocab_size, config.hidden_size)
        cos, sin = rope.angle_table(config, positions, dtype)
        self.register_buffer("cos", cos.to(device), persistent=False)
        self.register_buffer("sin", sin.to(device), persistent=False)

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    def forward(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """tokens, positions int64 [T] -> normalised hidden states [T, hidden]."""
        x, cos, sin = self.embed(tokens, positions)
        for layer in self.layers:
            x = layer(x, cos, sin, attention)
        return self.normalise(x)

    def embed(self, tokens: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The first block's input [T, hidden], and cos and sin [T, 1, D] of the positions."""
        cos, sin = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        return F.embedding(tokens, self.embedding), cos, sin

    def normalise(self, x: Tensor) -> Tensor:
        """The last block's output, as the output head takes it."""
        return F.rms_norm(x, (x.shape[-1],), self.final_norm, self.config.rms_norm_eps)

    def logits(self, hidden: Tensor, out: Tensor | None = None) -> Tensor:
        """hidden [T, hidden] -> logits [T, vocab], written into `out` where given."""
        return torch.mm(hidden, self.head.t(), out=out) if out is not None else torch.mm(hidden, self.head.t())
