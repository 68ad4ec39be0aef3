"""vLLM's own argument names that decide capture lists and scheduler limits, with its defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from packaging.version import Version

from tuner.engines.options import read_pairs, require_above_zero, require_positive
from tuner.engines.vllm import facts, speculation
from workloads.errors import BadUsage

CudagraphMode = Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
PerformanceMode = Literal["balanced", "interactivity", "throughput"]

ALIASES: Mapping[str, str] = {
    "tp_size": "tensor_parallel_size",
    "vllm_use_v2_model_runner": "use_v2_model_runner",
    "VLLM_USE_V2_MODEL_RUNNER": "use_v2_model_runner",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "estimate_cudagraph_memory",
    "enable_sp": "enable_sequence_parallelism",
}

_LARGE_GPU_GIB = 70
_HUGE_GPU_GIB = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """Resolved options of one vLLM server (vLLM 0.33.0 `engine/arg_utils.py:2955-3235`).

    Attributes:
        max_num_seqs: 1024 on GPUs of at least 70 GiB (A100 and GB10 excepted below 160 GiB), else 256.
        max_num_batched_tokens: 16384 on at least 160 GiB, 8192 on at least 70 GiB, else 2048.
        num_speculative_tokens: draft tokens a request; a decode step holds 1 + this many tokens of each request.
        num_speculative_tokens_per_batch_size: a dynamic schedule, `1-64:3,65-128:1,129-512:0` (requests: draft tokens).
        max_cudagraph_capture_size: only where the user sets it.
        use_v2_model_runner: the environment variable VLLM_USE_V2_MODEL_RUNNER.
        enable_sequence_parallelism: `pass_config.enable_sp`; removes sizes that TP does not divide up to 0.20.
        num_gpu_blocks_override, block_size: together the KV cache, where given.
        max_model_len: the longest request, where it is set.
        mamba_cache_blocks: cache blocks of a hybrid model; FULL graphs need one a request.
        kv_cache_memory_bytes: fixes the KV cache; nothing is profiled then.
        estimate_cudagraph_memory: the environment variable VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS.
        weights_gib, activation_gib, kv_bytes_per_token: of the model on one GPU, where known.
        gpu_memory_gib, gpu_arch: the GPU; `sm90` is Hopper, `sm100` and `sm103` are data-centre Blackwell.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    use_v2_model_runner: bool
    num_speculative_tokens: int = 0
    num_speculative_tokens_per_batch_size: str | None = None
    tensor_parallel_size: int = 1
    enable_lora: bool = False
    cudagraph_specialize_lora: bool = True
    performance_mode: PerformanceMode = "balanced"
    cudagraph_mode: CudagraphMode = "FULL_AND_PIECEWISE"
    max_cudagraph_capture_size: int | None = None
    enforce_eager: bool = False
    enable_sequence_parallelism: bool = False
    long_prefill_token_threshold: int = 0
    num_gpu_blocks_override: int | None = None
    block_size: int = 16
    max_model_len: int | None = None
    mamba_cache_blocks: int | None = None
    gpu_memory_gib: float = 141.0
    gpu_arch: str = "sm90"
    gpu_memory_utilization: float = 0.92
    kv_cache_memory_bytes: int | None = None
    estimate_cudagraph_memory: bool = True
    weights_gib: float | None = None
    activation_gib: float | None = None
    kv_bytes_per_token: float | None = None

    def __post_init__(self) -> None:
        positive = ("max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size", "max_cudagraph_capture_size")
        require_positive(self, *positive, "num_gpu_blocks_override", "block_size")
        require_positive(self, "num_speculative_tokens", "long_prefill_token_threshold", least=0)
        require_above_zero(self, "gpu_memory_utilization", "kv_bytes_per_token", "gpu_memory_gib", "weights_gib")
        require_positive(self, "kv_cache_memory_bytes", "max_model_len", "mamba_cache_blocks")
        arch_number(self.gpu_arch)
        speculation.read_schedule(self.num_speculative_tokens_per_batch_size)
        if self.max_num_batched_tokens < self.query_tokens:
            raise BadUsage(f"must hold one decode step of {self.query_tokens} tokens", field="max_num_batched_tokens")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise BadUsage(
                f"must be at least max_num_seqs ({self.max_num_seqs}), not {self.max_num_batched_tokens}; "
                "vLLM refuses to start otherwise",
                field="max_num_batched_tokens",
            )

    @property
    def query_tokens(self) -> int:
        """q: tokens of one request in a decode step."""
        return 1 + self.num_speculative_tokens

    @property
    def tiers(self) -> tuple[speculation.Tier, ...]:
        """The dynamic schedule as given; empty without one, or without draft tokens."""
        return speculation.read_schedule(self.num_speculative_tokens_per_batch_size) if self.query_tokens > 1 else ()

    @property
    def dynamic_tiers(self) -> tuple[tuple[int, int], ...]:
        """(q, most requests at that q) of the schedule within max_num_seqs."""
        return speculation.widest_batches(self.tiers, self.max_num_seqs, self.num_speculative_tokens)

    @property
    def top_decode_tokens(self) -> int:
        """The largest decode step that the scheduler can make."""
        return min(self.max_num_seqs, self.max_num_batched_tokens // self.query_tokens) * self.query_tokens

    @property
    def capture_ceiling_tokens(self) -> int:
        """Cap of the default list: 1024 on the SM100 family, else 512."""
        return 1024 if arch_number(self.gpu_arch) // 10 == 10 else 512

    @property
    def ladder_factor(self) -> int:
        """The default list ends at this many times the largest decode step."""
        return 2

    @property
    def mode(self) -> CudagraphMode:
        return "NONE" if self.enforce_eager else self.cudagraph_mode

    @property
    def lora_cases(self) -> int:
        return 2 if self.enable_lora and self.cudagraph_specialize_lora else 1

    @property
    def kv_tokens(self) -> int | None:
        blocks = self.num_gpu_blocks_override
        return None if blocks is None else blocks * self.block_size


def parse(
    raw: Mapping[str, str], version: Version, kind: type[VllmOptions] | None = None, name: str = "vllm"
) -> VllmOptions:
    """Options from `--set` pairs; a plug-in of vLLM has a `kind` of its own.

    Raises:
        BadUsage: an unknown key, or a value that vLLM refuses.
    """
    made = kind or VllmOptions
    given = read_pairs(made, raw, engine=name, aliases=ALIASES)
    given.setdefault("use_v2_model_runner", facts.V2_RUNNER.holds(version))
    given.setdefault("gpu_memory_utilization", 0.92 if facts.ESTIMATE.holds(version) else 0.9)
    given.setdefault("cudagraph_mode", "FULL_AND_PIECEWISE" if facts.FULL_BY_DEFAULT.holds(version) else "PIECEWISE")
    seqs, tokens = _server_defaults(given, version)
    given.setdefault("max_num_batched_tokens", tokens)
    # A default is lowered to the token budget; a value that was asked for is not.
    given.setdefault("max_num_seqs", min(seqs, given["max_num_batched_tokens"]))
    return made(**given)


def arch_number(gpu_arch: str) -> int:
    """`sm90` -> 90, also written `90` or `sm_90a`.

    Raises:
        BadUsage: not of that form.
    """
    match = re.fullmatch(r"(?:sm_?)?(\d{2,3})[a-z]?", gpu_arch.strip().lower())
    if match is None:
        raise BadUsage(f"must look like sm90 or sm100, not '{gpu_arch}'", field="gpu_arch")
    return int(match.group(1))


def _server_defaults(given: Mapping[str, Any], version: Version) -> tuple[int, int]:
    """Default (max_num_seqs, max_num_batched_tokens) of the API server."""
    memory_gib = given.get("gpu_memory_gib", 141.0)
    small_anyway = arch_number(given.get("gpu_arch", "sm90")) in (80, 121)  # A100, GB10
    if memory_gib >= _HUGE_GPU_GIB and facts.WIDE_BLACKWELL.holds(version):
        seqs, tokens = 1024, 16384
    elif memory_gib >= _LARGE_GPU_GIB and not small_anyway:
        seqs, tokens = 1024, 8192
    else:
        seqs, tokens = 256, 2048
    doubled = 2 if given.get("performance_mode") == "throughput" else 1
    return seqs * doubled, tokens * doubled
