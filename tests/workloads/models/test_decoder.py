"""The decoder computes what `transformers` computes, for the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from workloads.errors import BadInput
from workloads.models.attention import CausalAttention
from workloads.models.config import load_config, parse_config
from workloads.models.decoder import Decoder
from workloads.models.weights import build_decoder, load_hugging_face

transformers = pytest.importorskip("transformers")

CPU = torch.device("cpu")
TOKENS = torch.tensor([3, 250, 17, 17, 99, 4, 201, 33, 8, 61, 77, 5])

SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}
EXPERTS: dict[str, Any] = {"head_dim": 32, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 48}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-3.1-rope": ("Llama", {"rope_theta": 500000.0, "rope_scaling": LLAMA3}),
    "llama-with-bias": ("Llama", {"attention_bias": True}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 32, "rope_theta": 1e6}),
    "qwen3-moe": ("Qwen3Moe", EXPERTS | {"norm_topk_prob": True}),
    "qwen3-moe-shares-kept": ("Qwen3Moe", EXPERTS | {"norm_topk_prob": False}),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen3-tied": ("Qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
}


QWEN_EXPERT = {"stem": "mlp", "gate_up_proj": "gate_proj up_proj", "down_proj": "down_proj"}
MIXTRAL_EXPERT = {"stem": "block_sparse_moe", "gate_up_proj": "w1 w3", "down_proj": "w2"}


def reference(family: str) -> tuple[Any, dict[str, Any]]:
    """A transformers model with every weight random (norms and biases too), and its config.json."""
    prefix, extra = FAMILIES[family]
    config = getattr(transformers, f"{prefix}Config")(**SHAPE, **extra, architectures=[f"{prefix}ForCausalLM"])
    torch.manual_seed(7)
    model = getattr(transformers, f"{prefix}ForCausalLM")(config).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.2)
    return model, json.loads(config.to_json_string(use_diff=False))


def ours(model: Any, raw: dict[str, Any], dtype: torch.dtype) -> Decoder:
    config = parse_config(json.dumps(raw), name="reference")
    decoder = Decoder(config, positions=64, device=CPU, dtype=dtype)
    load_hugging_face(decoder, lambda name: model.state_dict()[name])
    return decoder


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_transformers(family: str) -> None:
    model, raw = reference(family)
    decoder = ours(model, raw, torch.float32)
    with torch.inference_mode():
        expected = model(TOKENS[None]).logits[0]
        hidden = decoder(TOKENS, torch.arange(len(TOKENS)), CausalAttention())
        error = (decoder.logits(hidden) - expected).abs().max()
    # Largest error seen over all families: 4.2e-6 on logits up to 6.5, the rounding of float32.
    assert expected.abs().max() > 1
    assert error < 2e-5, f"{family}: max error {error:.2e}"


def test_a_folder_with_weights_gives_the_model_of_that_folder(tmp_path: Path) -> None:
    model, raw = reference("qwen3")
    (tmp_path / "config.json").write_text(json.dumps(raw))
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, tmp_path / "model.safetensors")
    decoder = build_decoder(str(tmp_path), positions=64, device=CPU, dtype=torch.float32)
    with torch.inference_mode():
        hidden = decoder(TOKENS, torch.arange(len(TOKENS)), CausalAttention())
        torch.testing.assert_close(decoder.logits(hidden), model(TOKENS[None]).logits[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("family", "names"), [("qwen3-moe", QWEN_EXPERT), ("mixtral", MIXTRAL_EXPERT)])
def test_experts_are_read_as_published_files_name_them(family: str, names: dict[str, str], tmp_path: Path) -> None:
    model, raw = reference(family)
    (tmp_path / "config.json").write_text(json.dumps(raw))
    state: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        stem, dot, part = name.rpartition("mlp.experts.")
        if dot:
            for i, weights in enumerate(tensor):
                pieces = weights.chunk(2) if part == "gate_up_proj" else (weights,)
                for piece, own in zip(pieces, names[part].split(), strict=True):
                    state[f"{stem}{names['stem']}.experts.{i}.{own}.weight"] = piece.clone()
        else:
            state[name.replace("mlp.gate.", f"{names['stem']}.gate.")] = tensor.clone()
    save_file(state, tmp_path / "model.safetensors")
    decoder = build_decoder(str(tmp_path), positions=64, device=CPU, dtype=torch.float32)
    with torch.inference_mode():
        hidden = decoder(TOKENS, torch.arange(len(TOKENS)), CausalAttention())
        torch.testing.assert_close(decoder.logits(hidden), model(TOKENS[None]).logits[0], atol=1e-4, rtol=1e-4)


def test_a_folder_that_lacks_a_tensor_is_refused_by_its_name(tmp_path: Path) -> None:
    model, raw = reference("llama")
    (tmp_path / "config.json").write_text(json.dumps(raw))
    state = {k: v.contiguous() for k, v in model.state_dict().items() if "layers.1.mlp.up_proj" not in k}
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(BadInput, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        build_decoder(str(tmp_path), positions=64, device=CPU, dtype=torch.float32)


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    def first(seed: int) -> torch.Tensor:
        return build_decoder("tiny-llama", positions=8, device=CPU, dtype=torch.float32, seed=seed).get_parameter(
            "layers.0.qkv"
        )

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


def test_the_parameter_count_is_that_of_the_modules() -> None:
    for name in ("tiny-llama", "tiny-qwen3", "tiny-qwen3-moe"):
        decoder = build_decoder(name, positions=8, device=CPU, dtype=torch.float32)
        norm_rows = 0
        if decoder.config.qk_norm:  # stored once a head, counted once a projection
            norm_rows = decoder.config.layers * (decoder.config.heads + decoder.config.kv_heads - 2)
        stored = sum(p.numel() for p in decoder.parameters()) - norm_rows * decoder.config.head_dim
        assert decoder.config.parameters == stored


def test_public_shapes() -> None:
    llama, qwen = load_config("llama-3.1-8b"), load_config("qwen3-0.6b")
    assert llama.parameters == 8_030_261_248  # what Meta publishes for Llama-3.1-8B
    assert llama.kv_values_per_token * 2 == 128 * 1024
    assert qwen.parameters == 596_049_920  # what Qwen publishes for Qwen3-0.6B
    assert load_config("qwen3-32b").parameters == 32_762_123_264  # what Qwen publishes for Qwen3-32B
    mixture = load_config("qwen3-30b-a3b")
    assert mixture.parameters == 30_532_122_624  # what Qwen publishes for Qwen3-30B-A3B
