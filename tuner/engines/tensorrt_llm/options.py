"""TensorRT-LLM's own argument names (PyTorch backend) that decide the capture list and scheduler limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.engines.options import read_pairs, require_above_zero, require_positive
from workloads.errors import BadUsage

Backend = Literal["pytorch", "_autodeploy"]
PrefillBackend = Literal["piecewise", "breakable"]

ALIASES: Mapping[str, str] = {
    "cuda_graph_config.max_batch_size": "cuda_graph_max_batch_size",
    "cuda_graph_config.enable_padding": "enable_padding",
    "kv_cache_config.max_tokens": "max_tokens",
    "kv_cache_config.free_gpu_memory_fraction": "free_gpu_memory_fraction",
    "kv_cache_free_gpu_memory_fraction": "free_gpu_memory_fraction",
    "tp_size": "tensor_parallel_size",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorrtLlmOptions:
    """Resolved options of one TensorRT-LLM server.

    Attributes:
        max_batch_size: most requests of a step, per rank with attention DP.
        max_num_tokens: most tokens of a step.
        enable_padding: of `cuda_graph_config`. The bare field is false; here it is true unless said otherwise,
            because every configuration that Captune writes sets it.
        cuda_graph_max_batch_size: `cuda_graph_config.max_batch_size`, only where the user sets it.
        max_draft_len: draft tokens a request.
        draft_len_schedule: `4:4,8:2,32:1`, batch size up to which so many draft tokens are used; its thresholds are
            captured too.
        prefill_cuda_graph_backend: prefill graphs, off where it is not set and no prefill list is asked for.
        max_tokens: `kv_cache_config.max_tokens`, the KV cache in tokens, where given.
        max_seq_len, tensor_parallel_size: part of every launch; the decode list does not depend on them.
        free_gpu_memory_fraction: of `kv_cache_config`, the share of memory left after a trial run that KV gets.
        weights_gib, activation_gib, kv_bytes_per_token: of the model on one GPU, where known.
        backend: AutoDeploy (`_autodeploy`) has no fallback for a batch above its largest size.
    """

    max_batch_size: int = 2048
    max_num_tokens: int = 8192
    enable_padding: bool = True
    cuda_graph_max_batch_size: int | None = None
    max_draft_len: int = 0
    draft_len_schedule: str | None = None
    prefill_cuda_graph_backend: PrefillBackend | None = None
    enable_chunked_prefill: bool = False
    max_tokens: int | None = None
    max_seq_len: int | None = None
    tensor_parallel_size: int = 1
    backend: Backend = "pytorch"
    free_gpu_memory_fraction: float = 0.9
    gpu_memory_gib: float = 141.0
    weights_gib: float | None = None
    activation_gib: float | None = None
    kv_bytes_per_token: float | None = None

    def __post_init__(self) -> None:
        require_positive(self, "max_batch_size", "max_num_tokens", "cuda_graph_max_batch_size", "max_tokens")
        require_positive(self, "max_seq_len", "tensor_parallel_size")
        require_positive(self, "max_draft_len", least=0)
        require_above_zero(self, "free_gpu_memory_fraction", "kv_bytes_per_token", "gpu_memory_gib", "weights_gib")
        require_positive(self, "max_num_tokens", least=1 + self.max_draft_len)
        read_thresholds(self.draft_len_schedule)

    @property
    def largest_prefill(self) -> int | None:
        """Prefill sizes are clamped to this; None where the sequence length is not known."""
        return None if self.max_seq_len is None else self.max_batch_size * (self.max_seq_len - 1)

    @property
    def largest(self) -> int:
        """L: the executor drops larger sizes, and no generation step is larger."""
        return min(self.max_batch_size, self.max_num_tokens // (1 + self.max_draft_len))


def read_thresholds(text: str | None) -> tuple[int, ...]:
    """Batch sizes of a draft length schedule, increasing.

    Raises:
        BadUsage: not of the form `4:4,8:2`.
    """
    if text is None:
        return ()
    pairs = [pair.split(":") for pair in text.strip("{} ").replace(" ", "").split(",")]
    if not all(len(pair) == 2 and all(part.isdecimal() for part in pair) and int(pair[0]) > 0 for pair in pairs):
        raise BadUsage(f"'{text}' is no schedule, write 4:4,8:2,32:1", field="draft_len_schedule")
    return tuple(sorted(int(size) for size, _ in pairs))


def parse(raw: Mapping[str, str]) -> TensorrtLlmOptions:
    """Options from `--set` pairs.

    Raises:
        BadUsage: an unknown key, or a value that TensorRT-LLM refuses.
    """
    return TensorrtLlmOptions(**read_pairs(TensorrtLlmOptions, raw, engine="tensorrt-llm", aliases=ALIASES))
