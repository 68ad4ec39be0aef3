"""The same decode step in a higher precision, written plainly: what both eager and graph are judged against.

It shares the weights with the decoder and nothing else: no fused kernel, no attention backend, no static buffer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workloads.models.config import ModelConfig
from workloads.models.decoder import Decoder, DecoderLayer
from workloads.models.draft import DraftHead
from workloads.models.experts import ExpertBlock, choose
from workloads.models.rope import frequencies

PastOf = Callable[[int], tuple[Tensor, Tensor]]
"""layer -> (keys, values) [n, capacity, kv_heads, D] as cached; entries at or after a row's position are ignored."""


def reference_logits(decoder: Decoder, tokens: Tensor, positions: Tensor, past: PastOf, dtype: torch.dtype) -> Tensor:
    """Logits of one new token per row.

    Args:
        tokens, positions: int64 [n]; row i attends to its `positions[i]` cached tokens and to itself.
        dtype: float32 or float64; weights are converted where they are used, one at a time.

    Returns:
        [n, vocab] in `dtype`.
    """
    config = decoder.config
    x = decoder.embedding[tokens].to(dtype)
    angle = positions.to(dtype)[:, None, None] * frequencies(config).to(decoder.device, dtype)
    for layer in decoder.layers:
        assert isinstance(layer, DecoderLayer)
        x = x + _attention(layer, config, _norm(x, layer.input_norm, config), angle, positions, past)
        normed = _norm(x, layer.inner_norm, config)
        if layer.experts is None:
            x = x + _swiglu(normed, layer.gate_up, layer.down)
        else:
            x = x + _experts(layer.experts, normed)
    return _norm(x, decoder.final_norm, config) @ decoder.head.to(dtype).t()


def reference_draft(
    decoder: Decoder,
    head: DraftHead,
    *,
    candidates: Tensor,
    shares: Tensor,
    hidden: Tensor,
    positions: Tensor,
    tokens: Tensor,
    parents: Tensor,
    past: PastOf,
    dtype: torch.dtype,
) -> Tensor:
    """Products of probabilities of a tree that somebody else has drafted, level by level.

    Args:
        candidates, shares: [n, k], the level that the draft was given, and its probabilities.
        hidden: [n, hidden], states behind it. positions: int64 [n], places of the candidates.
        tokens, parents: int64 [levels, n, k], the drafted tree.
        past: keys and values of n x k branches; entries at or after a level's position are ignored.

    Returns:
        [levels, n, k] in `dtype`.
    """
    n, k = candidates.shape
    branch = torch.arange(n, device=candidates.device)[:, None]
    now, product = candidates, shares.to(dtype)
    states = hidden.to(dtype)[:, None].expand(-1, k, -1)
    made = []
    for level in range(len(tokens)):
        at = (positions + level)[:, None].expand(-1, k).flatten()
        angle = at.to(dtype)[:, None, None] * frequencies(head.config).to(decoder.device, dtype)
        x = (
            torch.cat((decoder.embedding[now.flatten()].to(dtype), states.flatten(0, 1)), dim=-1)
            @ head.fuse.to(dtype).t()
        )
        x = x + _attention(head.layer, head.config, _norm(x, head.layer.input_norm, head.config), angle, at, past)
        x = x + _swiglu(_norm(x, head.layer.inner_norm, head.config), head.layer.gate_up, head.layer.down)
        x = _norm(x, head.final_norm, head.config)
        probability = (x @ decoder.head.to(dtype).t()).softmax(-1).view(n, k, -1)
        product = product[branch, parents[level]] * probability[branch, parents[level], tokens[level]]
        now, states = tokens[level], x.view(n, k, -1)[branch, parents[level]]
        made.append(product)
    return torch.stack(made)


def _swiglu(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = (x @ gate_up.to(x.dtype).t()).chunk(2, dim=-1)
    return (gate * torch.sigmoid(gate) * up) @ down.to(x.dtype).t()


def _experts(block: ExpertBlock, x: Tensor) -> Tensor:
    """Token by token, expert by expert."""
    share, expert = choose(x, block.router.to(x.dtype), block.experts)
    rows = []
    for i, row in enumerate(x):
        parts = [
            share[i, k] * _swiglu(row[None], block.gate_up[number], block.down[number])[0]
            for k, number in enumerate(expert[i].tolist())
        ]
        rows.append(torch.stack(parts).sum(dim=0))
    return torch.stack(rows)


def _norm(x: Tensor, weight: Tensor, config: ModelConfig) -> Tensor:
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + config.rms_norm_eps)
    return x * scale * weight.to(x.dtype)


def _rotate(x: Tensor, angle: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _attention(
    layer: DecoderLayer, config: ModelConfig, x: Tensor, angle: Tensor, positions: Tensor, past: PastOf
) -> Tensor:
    dtype, rows = x.dtype, len(x)
    qkv = x @ layer.qkv.to(dtype).t()
    if layer.qkv_bias is not None:
        qkv = qkv + layer.qkv_bias.to(dtype)
    heads, kv_heads = config.heads, config.kv_heads
    query, key, value = qkv.view(rows, -1, config.head_dim).split((heads, kv_heads, kv_heads), dim=1)
    if layer.head_norm is not None:
        query = _norm(query, layer.head_norm[:heads], config)
        key = _norm(key, layer.head_norm[heads:], config)
    query, key = _rotate(query, angle), _rotate(key, angle)
    old_key, old_value = past(layer.index)
    keys = torch.cat((old_key.to(dtype), key[:, None]), dim=1)
    values = torch.cat((old_value.to(dtype), value[:, None]), dim=1)
    grouped = query.view(rows, kv_heads, heads // kv_heads, config.head_dim)
    scores = torch.einsum("nkgd,nckd->nkgc", grouped, keys) / config.head_dim**0.5
    capacity = old_key.shape[1]
    seen = torch.arange(capacity + 1, device=x.device)[None] < positions[:, None]
    seen[:, capacity] = True
    scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
    attended = torch.einsum("nkgc,nckd->nkgd", scores.softmax(-1), values).reshape(rows, -1)
    result = attended @ layer.output.to(dtype).t()
    return result if layer.output_bias is None else result + layer.output_bias.to(dtype)
