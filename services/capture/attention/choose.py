"""Which decode attention a session uses: the length-aware one where it works here, else the dense one."""

from __future__ import annotations

import logging
from subprocess import SubprocessError

import torch
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.dense import DenseAttention
from services.capture.attention.flash import FlashAttention, flash_supported
from services.capture.attention.flashinfer import FlashinferAttention, flashinfer_supported
from services.capture.attention.kv_cache import CacheLayout, rounded
from workloads.errors import Unavailable
from workloads.models.config import ModelConfig

logger = logging.getLogger(__name__)

PROBE_LENGTHS = (1, 7, 33, 64)
_FAST = ((FlashinferAttention, flashinfer_supported), (FlashAttention, flash_supported))
# Refused, another signature than ours, or no way to compile it here.
_UNUSABLE = (RuntimeError, TypeError, ValueError, AttributeError, OSError, ImportError, SubprocessError)
_SHORT: dict[type[DecodeAttention], str] = {FlashinferAttention: "flashinfer", FlashAttention: "flash"}


def choose_attention(
    config: ModelConfig,
    dtype: torch.dtype,
    device: torch.device,
    wanted: str = "auto",
    *,
    tokens_per_row: int = 1,
) -> type[DecodeAttention]:
    """The backend for a model here: the one `wanted`, or flashinfer, else torch's flash operator, else dense.

    Steps that verify drafts (several new tokens a row) take torch's flash operator at best: flashinfer's decode kernel
    has one query a row.

    A kernel must first agree with the dense backend on a small step: flashinfer compiles on first use, which can fail,
    and the operator behind flash is not public and may change its contract between torch versions.

    Raises:
        Unavailable: the wanted backend does not work here.
    """
    for backend, supported in _FAST:
        asked = wanted in ("auto", _SHORT[backend]) and supported(config, dtype, device)
        if asked and backend is FlashinferAttention and tokens_per_row > 1 and wanted == "auto":
            continue
        if asked and agrees(backend, config, dtype, device, tokens_per_row=tokens_per_row):
            return backend
    if wanted in ("auto", "dense"):
        return DenseAttention
    raise Unavailable(f"attention '{wanted}' does not work for {config.name} in {dtype} on {device}", field="attention")


@torch.inference_mode()
def agrees(
    backend: type[DecodeAttention],
    config: ModelConfig,
    dtype: torch.dtype,
    device: torch.device,
    *,
    packed: bool = False,
    tokens_per_row: int = 1,
) -> bool:
    """Whether a backend computes what the dense one does."""
    try:
        own = _probe(backend, config, dtype, device, packed=packed, tokens_per_row=tokens_per_row)
    except _UNUSABLE as error:
        logger.warning("%s is not used: %s", backend.name, (str(error).splitlines() or [type(error).__name__])[0])
        return False
    dense = _probe(DenseAttention, config, dtype, device, tokens_per_row=tokens_per_row)
    return torch.allclose(own, dense, atol=3e-2, rtol=3e-2)


def _probe(
    backend: type[DecodeAttention],
    config: ModelConfig,
    dtype: torch.dtype,
    device: torch.device,
    *,
    packed: bool = False,
    tokens_per_row: int = 1,
) -> Tensor:
    """Attention of one step over the same keys and values, wherever the backend keeps them."""
    q = tokens_per_row
    lengths = torch.tensor(PROBE_LENGTHS, dtype=torch.int32) + (q - 1)
    rows, capacity = len(lengths), rounded(int(lengths.max()))
    pool = sum(rounded(int(length)) for length in lengths) if packed else None
    attention = backend(config, CacheLayout(rows, capacity, dtype, device, pool, q))
    on_device = lengths.to(device)
    positions = (on_device.long()[:, None] - q + torch.arange(q, device=device)).flatten()
    generator = torch.Generator(device=device).manual_seed(2)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype, device=device)

    qkv = normal(rows * q, config.heads + 2 * config.kv_heads, config.head_dim)
    past_keys, past_values = (normal(rows, capacity, config.kv_heads, config.head_dim) for _ in range(2))
    arguments = attention.arguments(rows, on_device)
    attention.plan(positions, on_device, lengths)
    for row, start in enumerate(attention.row_starts(rows)):
        length = int(lengths[row])
        attention.cache.keys[0, start : start + length] = past_keys[row, :length]
        attention.cache.values[0, start : start + length] = past_values[row, :length]
    query, key, value = qkv.split((config.heads, config.kv_heads, config.kv_heads), dim=1)
    return attention.over(*arguments).run(0, query, key, value).float().clone()
