"""SGLang's own argument names that decide capture lists and scheduler limits, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from packaging.version import Version

from tuner.engines.options import read_pairs, require_above_zero, require_positive
from tuner.engines.sglang import facts
from workloads.errors import BadUsage

ALIASES: Mapping[str, str] = {
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode",
    "piecewise_cuda_graph_max_tokens": "cuda_graph_max_bs_prefill",
    "tensor_parallel_size": "tp_size",
    "tp": "tp_size",
    "data_parallel_size": "dp_size",
    "dp": "dp_size",
    "pipeline_parallel_size": "pp_size",
    "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING": "post_capture_kv_sizing",
}

Backend = Literal["full", "breakable", "disabled"]
Disaggregation = Literal["null", "prefill", "decode"]

_AUTO_RUNNING_FLOOR, _AUTO_RUNNING_CEILING = 2048, 4096
_DRAFT_FREE = frozenset({"NGRAM"})
_A2A_WITH_PREFILL = frozenset({"none", "deepep", "megamoe", "flashinfer"})
_DEEPEP_MULTIPLE = 8
_LLAMA_2_TOKENS, _OLD_PREFILL_TOKENS = 4096, 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangOptions:
    """Resolved options of one SGLang server (0.5.23 `arg_groups/memory_hook.py:46-190`).

    Attributes:
        max_running_requests: of the whole server; with DP attention every rank gets its share. Left to SGLang it is
            clamp(max_total_tokens / context_length x 512, 2048, 4096), at most half of max_total_tokens.
        cuda_graph_max_bs_decode: largest default decode size, in requests; a default is lowered to
            max_running_requests, an explicit value is not.
        cuda_graph_max_bs_prefill: largest default prefill size, in tokens.
        chunked_prefill_size: -1 turns chunking off.
        use_mla: DeepSeek-style attention, which caps the default prefill sizes (8192 tokens, 2048 to 0.5.22).
        cuda_graph_backend_decode, cuda_graph_backend_prefill: only where the user sets them; they win over switches.
        enable_piecewise_cuda_graph: prefill graphs by default; to 0.5.9 they were off without this flag.
        uses_kda, is_deepseek_v4, is_multimodal, deepseek_v3_trtllm_mla, is_llama_2: facts of the model. Multimodal
            means one whose prefill graphs SGLang has not validated.
        is_hip: ROCm instead of CUDA.
        max_total_tokens: the KV cache in tokens, where known.
        gpu_memory_gib: memory of one GPU.
        mem_fraction_static: share of the GPU for weights and KV cache, only where the user sets it.
        post_capture_kv_sizing: the environment variable SGLANG_ENABLE_POST_CAPTURE_KV_SIZING.
        weights_gib, kv_bytes_per_token: of the model on one GPU, where known; they decide the KV capacity.
    """

    max_running_requests: int
    cuda_graph_max_bs_decode: int
    cuda_graph_max_bs_prefill: int
    chunked_prefill_size: int
    speculative_num_draft_tokens: int
    tp_size: int = 1
    dp_size: int = 1
    pp_size: int = 1
    attn_cp_size: int = 1
    enable_dp_attention: bool = False
    enable_two_batch_overlap: bool = False
    enable_lora: bool = False
    speculative_algorithm: str | None = None
    cuda_graph_backend_decode: Backend | None = None
    cuda_graph_backend_prefill: Backend | None = None
    enable_piecewise_cuda_graph: bool = True
    disaggregation_mode: Disaggregation = "null"
    dcp_size: int = 1
    uses_kda: bool = False
    is_deepseek_v4: bool = False
    is_multimodal: bool = False
    deepseek_v3_trtllm_mla: bool = False
    is_llama_2: bool = False
    is_hip: bool = False
    max_prefill_tokens: int = 16384
    max_total_tokens: int | None = None
    context_length: int | None = None
    use_mla: bool = False
    disable_cuda_graph: bool = False
    disable_decode_cuda_graph: bool = False
    disable_prefill_cuda_graph: bool = False
    disable_cuda_graph_padding: bool = False
    gpu_memory_gib: float = 141.0
    moe_a2a_backend: str = "none"
    mem_fraction_static: float | None = None
    post_capture_kv_sizing: bool = False
    weights_gib: float | None = None
    kv_bytes_per_token: float | None = None

    def __post_init__(self) -> None:
        require_positive(self, "max_running_requests", "cuda_graph_max_bs_decode", "max_prefill_tokens")
        require_positive(
            self, "tp_size", "dp_size", "pp_size", "attn_cp_size", "dcp_size", "max_total_tokens", "context_length"
        )
        require_positive(self, "speculative_num_draft_tokens")
        require_above_zero(self, "mem_fraction_static", "kv_bytes_per_token", "gpu_memory_gib", "weights_gib")
        if self.chunked_prefill_size != -1 and self.chunked_prefill_size < 1:
            raise BadUsage("must be at least 1, or -1 for no chunks", field="chunked_prefill_size")
        if self.enable_dp_attention and self.tp_size % self.dp_size:
            raise BadUsage(f"must divide tp_size ({self.tp_size}) with DP attention", field="dp_size")

    @property
    def attention_dp(self) -> int:
        return self.dp_size if self.enable_dp_attention else 1

    @property
    def attention_tp(self) -> int:
        return max(1, self.tp_size // (self.attention_dp * self.attn_cp_size))

    @property
    def pool_requests(self) -> int:
        """Request slots of one attention-DP rank: the largest decode step."""
        return max(1, self.max_running_requests // self.attention_dp)

    @property
    def verify_tokens(self) -> int:
        return 1 if self.speculative_algorithm is None else self.speculative_num_draft_tokens

    @property
    def draft_families(self) -> tuple[str, ...]:
        """Graph families beside the target that reuse the decode list."""
        algorithm = self.speculative_algorithm
        return () if algorithm is None or algorithm.upper() in _DRAFT_FREE else ("draft", "draft_extend")

    @property
    def decode_off(self) -> bool:
        if self.cuda_graph_backend_decode is not None:
            return self.cuda_graph_backend_decode == "disabled"
        return self.disable_cuda_graph or self.disable_decode_cuda_graph or self.disaggregation_mode == "prefill"

    @property
    def prefill_off(self) -> str | None:
        """Why no prefill graph is captured; None where some are (0.5.23 `cuda_graph_hook.py:136-255`)."""
        if self.cuda_graph_backend_prefill is not None:  # an explicit backend skips everything below
            return "their backend is disabled" if self.cuda_graph_backend_prefill == "disabled" else None
        reasons = (
            (self.disable_cuda_graph or self.disable_prefill_cuda_graph, "they are disabled"),
            (self.enable_two_batch_overlap, "two-batch overlap disables them"),
            (self.attn_cp_size > 1, "attention context parallelism disables them"),
            (self.pp_size > 1, "pipeline parallelism disables them"),
            (self.dcp_size > 1, "decode context parallelism disables them"),
            (self.uses_kda, "KDA linear attention disables them"),
            (self.is_deepseek_v4, "DeepSeek-V4 without context parallelism disables them"),
            (self.is_multimodal, "a multimodal model that is not on SGLang's list disables them"),
            (self.moe_a2a_backend not in _A2A_WITH_PREFILL, f"all-to-all backend {self.moe_a2a_backend} disables them"),
            (self.deepseek_v3_trtllm_mla, "DeepSeek-V3 on the trtllm_mla attention backend disables them"),
            (self.disaggregation_mode == "decode", "a PD-decode server has none"),
        )
        return next((reason for holds, reason in reasons if holds), None)

    @property
    def prefill_multiple(self) -> int:
        """DeepEP hangs on prefill buckets that 8 does not divide, so SGLang rounds them up first."""
        return _DEEPEP_MULTIPLE if self.moe_a2a_backend == "deepep" else 1

    @property
    def largest_prefill(self) -> int | None:
        """Most tokens a prefill capture can represent; None where the context length is not known."""
        return None if self.context_length is None else self.pool_requests * self.context_length


def parse(raw: Mapping[str, str], version: Version) -> SglangOptions:
    """Options from `--set` pairs.

    Raises:
        BadUsage: an unknown key, or a value that SGLang refuses.
    """
    given = read_pairs(SglangOptions, raw, engine="sglang", aliases=ALIASES)
    max_decode, chunk = _gpu_defaults(given, version)
    given.setdefault("chunked_prefill_size", chunk)
    if "cuda_graph_max_bs_decode" not in given:
        bound = given.get("max_running_requests", max_decode) if facts.LOWERED_DEFAULT.holds(version) else max_decode
        given["cuda_graph_max_bs_decode"] = min(max_decode, bound)
    given.setdefault("max_running_requests", _auto_running(given))
    given.setdefault("cuda_graph_max_bs_prefill", _max_prefill(given, version))
    given.setdefault("speculative_num_draft_tokens", 1)
    given.setdefault("enable_piecewise_cuda_graph", facts.MAX_APPENDED.holds(version))
    return SglangOptions(**given)


def _gpu_defaults(given: Mapping[str, Any], version: Version) -> tuple[int, int]:
    """Default (decode max_bs, chunked_prefill_size) by memory of one GPU."""
    memory_gib, wide = given.get("gpu_memory_gib", 141.0), given.get("tp_size", 1) >= 4
    if memory_gib < 20:
        return 8, 2048
    if memory_gib < 35:
        if facts.WIDE_SMALL_GPU.holds(version):
            return (160 if wide else 48), 4096
        narrow = 24 if facts.SPEC_64.holds(version) else 16
        return (80 if wide else narrow), 2048
    if memory_gib < 60:
        return (160 if wide else 32), 4096
    if memory_gib < 160:
        return (512 if wide else 256), 8192
    return 512, 16384


def _auto_running(given: Mapping[str, Any]) -> int:
    tokens, context = given.get("max_total_tokens"), given.get("context_length")
    if tokens is None or context is None:
        return _AUTO_RUNNING_FLOOR * _attention_dp(given)
    wanted = min(max(tokens * 512 // max(context, 1), _AUTO_RUNNING_FLOOR), _AUTO_RUNNING_CEILING)
    return int(max(1, min(wanted, tokens // 2))) * _attention_dp(given)


def _attention_dp(given: Mapping[str, Any]) -> int:
    return int(given.get("dp_size", 1)) if given.get("enable_dp_attention") else 1


def _max_prefill(given: Mapping[str, Any], version: Version) -> int:
    chunk = given["chunked_prefill_size"]
    if not facts.VERIFY_WIDTH.holds(version):
        return _OLD_PREFILL_TOKENS
    largest = min(8192 if facts.MLA_8192.holds(version) else 2048, chunk) if given.get("use_mla") else chunk
    bounds = [largest, *([_LLAMA_2_TOKENS] if given.get("is_llama_2") else [])]
    return int(min(value for value in (*bounds, given.get("max_total_tokens")) if value is not None))
