"""ModelConfig: the shape of a decoder, read from a Hugging Face `config.json`. No torch here.

Supported: Llama, Mistral (full attention), Qwen2 and Qwen3, dense; Qwen3-MoE and Mixtral. What the shape depends on and
is not understood (another architecture, another rope scaling, a sliding window) is refused, never approximated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.errors import BadInput

CONFIGS = Path(__file__).parent / "configs"

# Architecture -> (attention bias when the file is silent, RMSNorm on query and key heads).
_ARCHITECTURES = {
    "LlamaForCausalLM": (False, False),
    "MistralForCausalLM": (False, False),
    "Qwen2ForCausalLM": (True, False),
    "Qwen3ForCausalLM": (False, True),
    "Qwen3MoeForCausalLM": (False, True),
    "MixtralForCausalLM": (False, False),
}


@dataclass(frozen=True, slots=True)
class Llama3RopeScaling:
    """Frequency scaling of Llama 3.1: long wavelengths are stretched by `factor`, short ones kept."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_positions: int


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of the dense block's two projections.

    Attributes:
        chosen: experts that every token is sent to.
        inner_size: intermediate size of one expert.
        normalised: whether the chosen experts' shares are scaled to sum to one.
    """

    count: int
    chosen: int
    inner_size: int
    normalised: bool


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a decoder-only transformer.

    Attributes:
        name: built-in name, or the folder or file it came from.
        attention_bias: bias on the query, key and value projections.
        output_bias: bias on the attention output projection.
        qk_norm: RMSNorm over each query and key head before rotary embedding (Qwen3).
        experts: of every layer; None is a dense model.
    """

    name: str
    architecture: str
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Llama3RopeScaling | None
    tied_embeddings: bool
    attention_bias: bool
    output_bias: bool
    qk_norm: bool
    experts: Experts | None = None

    def __post_init__(self) -> None:
        for field in ("hidden_size", "intermediate_size", "layers", "heads", "kv_heads", "head_dim", "vocab_size"):
            if getattr(self, field) < 1:
                raise BadInput(f"must be at least 1, not {getattr(self, field)}", file=self.name, field=field)
        if self.heads % self.kv_heads:
            raise BadInput(
                f"{self.heads} attention heads do not divide over {self.kv_heads} key-value heads",
                file=self.name,
                field="num_key_value_heads",
            )
        if self.experts is not None and not 1 <= self.experts.chosen <= self.experts.count:
            raise BadInput(
                f"{self.experts.chosen} of {self.experts.count} experts cannot be chosen",
                file=self.name,
                field="num_experts_per_tok",
            )
        if self.head_dim % 2:
            raise BadInput("rotary embedding needs an even head size", file=self.name, field="head_dim")

    @property
    def kv_values_per_token(self) -> int:
        """Numbers that one token adds to the KV cache, all layers, keys and values."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    @property
    def parameters(self) -> int:
        """Number of weights, norms and biases included."""
        qkv = (self.heads + 2 * self.kv_heads) * self.head_dim
        layer = self.hidden_size * (qkv + self.heads * self.head_dim + 2)
        if self.experts is None:
            layer += self.hidden_size * 3 * self.intermediate_size
        else:
            layer += self.hidden_size * self.experts.count * (3 * self.experts.inner_size + 1)
        layer += qkv * self.attention_bias + self.hidden_size * self.output_bias + 2 * self.head_dim * self.qk_norm
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        return self.layers * layer + embeddings + self.hidden_size


def builtin_names() -> tuple[str, ...]:
    """Names that `load_config` knows without a file."""
    return tuple(sorted(path.stem for path in CONFIGS.glob("*.json")))


def load_config(model: str) -> ModelConfig:
    """The config of a built-in name, a `config.json` file, or a folder that holds one.

    Raises:
        BadInput: no such model, not JSON, or a shape that is not supported.
    """
    builtin = CONFIGS / f"{model}.json"
    if model in builtin_names():
        return parse_config(builtin.read_text(), name=model)
    path = Path(model)
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        known = ", ".join(builtin_names())
        raise BadInput(f"'{model}' is neither a file, a folder with config.json, nor one of {known}", field="model")
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read: {error}", file=str(file)) from None
    folder = file.resolve().parent
    return parse_config(text, name=folder.name if file.name == "config.json" else file.stem, file=str(file))


def weights_folder(model: str) -> Path | None:
    """The folder with `*.safetensors` weights that `model` points to, or None: then weights are random."""
    path = Path(model)
    folder = path if path.is_dir() else path.parent
    if model in builtin_names() or not path.exists() or not any(folder.glob("*.safetensors")):
        return None
    return folder


def parse_config(text: str, *, name: str, file: str | None = None) -> ModelConfig:
    """Read a Hugging Face config; see `load_config`."""
    where = file or name
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON: {error.msg}", file=where, line=error.lineno) from None
    if not isinstance(raw, dict):
        raise BadInput("a model config is a JSON object", file=where)
    architecture = str((raw.get("architectures") or ["none"])[0])
    if architecture not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES)
        raise BadInput(f"'{architecture}' is not supported, only {known}", file=where, field="architectures")
    if raw.get("sliding_window") and (
        architecture in ("MistralForCausalLM", "MixtralForCausalLM") or raw.get("use_sliding_window")
    ):
        raise BadInput("sliding-window attention is not supported", file=where, field="sliding_window")
    read = _Reader(raw, where)
    bias_default, qk_norm = _ARCHITECTURES[architecture]
    attention_bias = bool(raw.get("attention_bias", bias_default)) or architecture == "Qwen2ForCausalLM"
    heads = read.whole("num_attention_heads")
    hidden_size = read.whole("hidden_size")
    theta, scaling = _rope(raw, read)
    return ModelConfig(
        name=name,
        architecture=architecture,
        hidden_size=hidden_size,
        intermediate_size=read.whole("intermediate_size"),
        layers=read.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=read.whole("num_key_value_heads", heads),
        head_dim=read.whole("head_dim", 128 if qk_norm else hidden_size // max(heads, 1)),
        vocab_size=read.whole("vocab_size"),
        rms_norm_eps=read.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
        attention_bias=attention_bias,
        output_bias=attention_bias and architecture in ("LlamaForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"),
        qk_norm=qk_norm,
        experts=_experts(architecture, raw, read),
    )


def _experts(architecture: str, raw: dict[str, Any], read: _Reader) -> Experts | None:
    if architecture == "MixtralForCausalLM":
        count, chosen = read.whole("num_local_experts", 8), read.whole("num_experts_per_tok", 2)
        return Experts(count, chosen, read.whole("intermediate_size"), normalised=True)
    if architecture != "Qwen3MoeForCausalLM":
        return None
    if raw.get("mlp_only_layers") or read.whole("decoder_sparse_step", 1) != 1:
        raise BadInput("dense layers between expert layers are not supported", file=read.file, field="mlp_only_layers")
    # transformers 5 writes the name that Mixtral uses.
    count = read.whole("num_experts", read.whole("num_local_experts", 128))
    chosen = read.whole("num_experts_per_tok", 8)
    return Experts(count, chosen, read.whole("moe_intermediate_size"), bool(raw.get("norm_topk_prob", False)))


def _rope(raw: dict[str, Any], read: _Reader) -> tuple[float, Llama3RopeScaling | None]:
    """(theta, scaling) from `rope_theta` + `rope_scaling`, or from the newer `rope_parameters` that holds both."""
    scaling = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise BadInput("must be an object", file=read.file, field="rope_scaling")
    inside = _Reader(scaling, read.file)
    theta = inside.number("rope_theta", read.number("rope_theta", 10000.0))
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise BadInput(f"rope scaling '{kind}' is not supported, only llama3", file=read.file, field="rope_scaling")
    return theta, Llama3RopeScaling(
        factor=inside.number("factor"),
        low_freq_factor=inside.number("low_freq_factor"),
        high_freq_factor=inside.number("high_freq_factor"),
        original_positions=inside.whole("original_max_position_embeddings"),
    )


class _Reader:
    """Values of one JSON object, with errors that name file and field."""

    def __init__(self, raw: dict[str, Any], file: str) -> None:
        self.raw = raw
        self.file = file

    def whole(self, field: str, default: int | None = None) -> int:
        value = self.number(field, default)
        if value != int(value):
            raise BadInput(f"must be a whole number, not {value}", file=self.file, field=field)
        return int(value)

    def number(self, field: str, default: float | None = None) -> float:
        value = self.raw.get(field)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput("is missing" if value is None else "must be a number", file=self.file, field=field)
        return float(value)
