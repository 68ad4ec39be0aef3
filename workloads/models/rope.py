"""Rotary position embedding: the table of angles, and its application in three kernels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workloads.models.config import Llama3RopeScaling, ModelConfig


def frequencies(config: ModelConfig) -> Tensor:
    """Angle per position of each pair of dimensions: float32 [head_dim / 2].

    The llama3 scaling follows the reference code of Llama 3.1: wavelengths above original / low_freq_factor are
    stretched by `factor`, below original / high_freq_factor kept, and blended between.
    """
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    plain = 1.0 / (config.rope_theta**exponent)
    return plain if config.rope_scaling is None else _llama3(plain, config.rope_scaling)


def _llama3(plain: Tensor, scaling: Llama3RopeScaling) -> Tensor:
    wavelength = 2 * math.pi / plain
    blend = (scaling.original_positions / wavelength - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blend = blend.clamp(0.0, 1.0)
    return (1 - blend) * plain / scaling.factor + blend * plain


def angle_table(config: ModelConfig, positions: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(cos, sin) for `apply`: [positions, head_dim] each; sin carries the sign of the rotated half."""
    angle = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies(config))
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((cos, cos), -1).to(dtype), torch.cat((-sin, sin), -1).to(dtype)


def apply(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate heads [T, H, D] by cos and sin [T, 1, D]: the halves swapped, the sign in sin."""
    first, second = heads.chunk(2, dim=-1)
    return torch.addcmul(heads * cos, torch.cat((second, first), dim=-1), sin)
