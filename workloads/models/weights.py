"""Weights of a Decoder: random ones made on the device in no time, or real ones in Hugging Face's names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from workloads.errors import BadInput, MissingExtra
from workloads.models.config import ModelConfig, load_config, weights_folder
from workloads.models.decoder import Decoder, DecoderLayer
from workloads.models.draft import DraftHead
from workloads.models.experts import ExpertBlock

Fetch = Callable[[str], Tensor]

RANDOM_STD = 0.02


def build_decoder(model: str, *, positions: int, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Decoder:
    """A decoder ready to run: weights from the folder that `model` names, else random ones.

    Raises:
        BadInput: no such model, unsupported shape, or weights that do not fit the config.
    """
    decoder = Decoder(load_config(model), positions=positions, device=device, dtype=dtype)
    folder = weights_folder(model)
    if folder is None:
        randomise(decoder, seed)
    else:
        load_folder(decoder, folder)
    return decoder.eval()


def randomise(decoder: Decoder | DraftHead, seed: int) -> None:
    """Normal weights of standard deviation 0.02 (what these models are initialised with), norms and biases jittered."""
    generator = torch.Generator(device=decoder.device).manual_seed(seed)
    for parameter in decoder.parameters():
        parameter.normal_(0.0, RANDOM_STD, generator=generator)
    for name, parameter in decoder.named_parameters():
        if name.endswith("norm"):
            parameter.add_(1.0)


def load_hugging_face(decoder: Decoder, fetch: Fetch) -> None:
    """Copy weights into the fused parameters; `fetch` returns a tensor by its Hugging Face name.

    Raises:
        BadInput: a tensor is missing or has another shape.
    """
    _copy(decoder.embedding, [fetch("model.embed_tokens.weight")], "model.embed_tokens.weight")
    _copy(decoder.final_norm, [fetch("model.norm.weight")], "model.norm.weight")
    if not decoder.config.tied_embeddings:
        _copy(decoder.head, [fetch("lm_head.weight")], "lm_head.weight")
    for index, layer in enumerate(decoder.layers):
        assert isinstance(layer, DecoderLayer)
        _load_layer(layer, decoder.config, f"model.layers.{index}", fetch)


def _load_layer(layer: DecoderLayer, config: ModelConfig, prefix: str, fetch: Fetch) -> None:
    def fused(target: nn.Parameter | None, *names: str) -> None:
        if target is not None:
            _copy(target, [fetch(f"{prefix}.{name}") for name in names], f"{prefix}.{names[0]}")

    projections = [f"self_attn.{part}_proj" for part in "qkv"]
    fused(layer.input_norm, "input_layernorm.weight")
    fused(layer.qkv, *(f"{name}.weight" for name in projections))
    fused(layer.qkv_bias, *(f"{name}.bias" for name in projections))
    fused(layer.output, "self_attn.o_proj.weight")
    fused(layer.output_bias, "self_attn.o_proj.bias")
    fused(layer.inner_norm, "post_attention_layernorm.weight")
    if layer.experts is None:
        fused(layer.gate_up, "mlp.gate_proj.weight", "mlp.up_proj.weight")
        fused(layer.down, "mlp.down_proj.weight")
    else:
        _load_experts(layer.experts, prefix, fetch)
    if layer.head_norm is not None:
        query = fetch(f"{prefix}.self_attn.q_norm.weight").expand(config.heads, -1)
        key = fetch(f"{prefix}.self_attn.k_norm.weight").expand(config.kv_heads, -1)
        _copy(layer.head_norm, [query, key], f"{prefix}.self_attn.q_norm.weight")


def _load_experts(block: ExpertBlock, prefix: str, fetch: Fetch) -> None:
    """Experts stand alone in published files (Qwen3-MoE, Mixtral) and are fused in the models of transformers 5."""
    if (router := _try(fetch, f"{prefix}.block_sparse_moe.gate.weight")) is not None:
        _copy(block.router, [router], f"{prefix}.block_sparse_moe.gate.weight")
        stem, gate, up, down = f"{prefix}.block_sparse_moe.experts", "w1", "w3", "w2"
    else:
        _copy(block.router, [fetch(f"{prefix}.mlp.gate.weight")], f"{prefix}.mlp.gate.weight")
        stem, gate, up, down = f"{prefix}.mlp.experts", "gate_proj", "up_proj", "down_proj"
    fused = _try(fetch, f"{stem}.gate_up_proj")
    if fused is not None:
        _copy(block.gate_up, [fused], f"{stem}.gate_up_proj")
        _copy(block.down, [fetch(f"{stem}.down_proj")], f"{stem}.down_proj")
        return
    for i in range(block.experts.count):
        own = f"{stem}.{i}"
        _copy(block.gate_up[i], [fetch(f"{own}.{name}.weight") for name in (gate, up)], f"{own}.{gate}.weight")
        _copy(block.down[i], [fetch(f"{own}.{down}.weight")], f"{own}.{down}.weight")


def _try(fetch: Fetch, name: str) -> Tensor | None:
    try:
        return fetch(name)
    except (BadInput, KeyError):
        return None


def _copy(target: Tensor, parts: list[Tensor], name: str) -> None:
    value = torch.cat(parts) if len(parts) > 1 else parts[0]
    if value.shape != target.shape:
        raise BadInput(f"has shape {tuple(value.shape)}, the config says {tuple(target.shape)}", field=name)
    with torch.no_grad():
        target.copy_(value)


def load_folder(decoder: Decoder, folder: Path) -> None:
    """Load every `*.safetensors` file of a folder; tensors are read one at a time.

    Raises:
        BadInput: a tensor is missing or does not fit.
        MissingExtra: safetensors is not installed.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingExtra.of("worker", "loading weights from a folder") from None
    try:
        files = [safe_open(path, framework="pt", device="cpu") for path in sorted(folder.glob("*.safetensors"))]
    except (SafetensorError, OSError) as error:
        raise BadInput(f"weights cannot be read: {error}", file=str(folder)) from None
    where = {name: file for file in files for name in file.keys()}  # noqa: SIM118 (not a mapping)

    def fetch(name: str) -> Tensor:
        if name not in where:
            raise BadInput("no file of the folder holds this tensor", file=str(folder), field=name)
        tensor: Tensor = where[name].get_tensor(name)
        return tensor

    load_hugging_face(decoder, fetch)
