"""Which decode attention a session uses: the length-aware one where it works here, else the dense one."""

from __future__ import annotations

import torch
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.dense import DenseAttention
from services.capture.attention.flash import FlashAttention, flash_supported
from workloads.models.config import ModelConfig

PROBE_LENGTHS = (1, 7, 33, 64)


def choose_attention(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> type[DecodeAttention]:
    """The backend for a model here. Flash must first agree with the dense backend on a small step, because the
    operator behind it is not public and may change its contract between torch versions."""
    if flash_supported(config, dtype, device) and _agrees(config, dtype, device):
        return FlashAttention
    return DenseAttention


@torch.inference_mode()
def _agrees(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> bool:
    try:
        flash = _probe(FlashAttention, config, dtype, device)
    except (RuntimeError, TypeError):  # this build's operator has another signature or refuses the shape
        return False
    return torch.allclose(flash, _probe(DenseAttention, config, dtype, device), atol=3e-2, rtol=3e-2)


def _probe(backend: type[DecodeAttention], config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Tensor:
    rows = len(PROBE_LENGTHS)
    attention = backend(config, rows=rows, capacity=max(PROBE_LENGTHS), dtype=dtype, device=device)
    attention.cache.randomise(1)
    lengths = torch.tensor(PROBE_LENGTHS, dtype=torch.int32, device=device)
    attention.plan(lengths.long() - 1, lengths)
    generator = torch.Generator(device=device).manual_seed(2)
    shape = (rows, config.heads + 2 * config.kv_heads, config.head_dim)
    qkv = torch.randn(shape, generator=generator, dtype=dtype, device=device)
    query, key, value = qkv.split((config.heads, config.kv_heads, config.kv_heads), dim=1)
    run = attention.over(*attention.arguments(rows, lengths))
    return run.run(0, query, key, value).float().clone()
