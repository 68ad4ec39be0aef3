"""vLLM's estimate of graph memory, which it subtracts from the KV cache before it captures."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.base import Effective
from tuner.engines.kv import GIB_IN_MIB, GraphMemory, KvTokens, missing, tokens_in
from tuner.engines.vllm import facts
from tuner.engines.vllm.options import VllmOptions

_LEAST_PER_GRAPH_MIB = 1.0


def estimates(options: VllmOptions, version: Version) -> bool:
    """Whether graphs cost KV cache; runner V2 said 0 at first (0.22.0 `v1/worker/gpu/model_runner.py:620`)."""
    known = facts.V2_ESTIMATE if options.use_v2_model_runner else facts.ESTIMATE
    return options.estimate_cudagraph_memory and known.holds(version)


def estimate_mib(effective: Effective, options: VllmOptions, memory: GraphMemory) -> float:
    """MiB that vLLM would believe these graphs to take, from measured per-graph costs.

    Both runners capture the two largest graphs of a family and extrapolate first + (n - 1) x second; runner V2 captures
    PIECEWISE graphs completely and extrapolates FULL ones only, with at least 1 MiB a graph. A family whose graphs cost
    nothing was measured together with another one, which has its part of the pool too.
    """
    total = 0.0
    for family, sizes in effective.families.items():
        costs = memory.sizes_mib(family, sorted(sizes, reverse=True))
        if not any(costs):
            continue
        variants = options.lora_cases
        if options.use_v2_model_runner and family == "decode_piecewise":
            total += sum(costs) * variants
            continue
        first, second = memory.pool_mib + costs[0], costs[min(1, len(costs) - 1)]
        if options.use_v2_model_runner:
            second = max(second, _LEAST_PER_GRAPH_MIB)
        total += first + (len(costs) * variants - 1) * second
    return total


def kv_tokens(effective: Effective, options: VllmOptions, version: Version, memory: GraphMemory | None) -> KvTokens:
    """KV capacity of one rank."""
    if options.kv_tokens is not None:
        reason = "num_gpu_blocks_override fixes the KV cache."
        return KvTokens(options.kv_tokens, False, reason, "num_gpu_blocks_override")
    if options.kv_cache_memory_bytes is not None:
        bytes_ = options.kv_bytes_per_token
        tokens = None if bytes_ is None else int(options.kv_cache_memory_bytes // bytes_)
        reason = f"kv_cache_memory_bytes fixes the KV cache.{missing(kv_bytes_per_token=bytes_)}"
        return KvTokens(tokens, False, reason, "kv_cache_memory_bytes")
    if not estimates(options, version):
        runner = " with model runner V2" if options.use_v2_model_runner else ""
        reason = f"vLLM {version}{runner} does not subtract graphs from the KV cache: they take memory beside it."
        return _result(0.0, False, reason, "a higher gpu_memory_utilization", options)
    if not effective.families:
        return _result(0.0, True, "No graph is captured, nothing is subtracted.", "", options)
    reason = "vLLM subtracts an estimate from the two largest graphs of a family, which can differ from the truth."
    if facts.V2_FOR_SOME.holds(version) and not facts.V2_ESTIMATE.holds(version):
        reason += " With model runner V2, which dense models may get by default, it subtracts nothing."
    reserved = None if memory is None else estimate_mib(effective, options, memory)
    return _result(reserved, True, reason, "nothing to set: a smaller estimate becomes KV cache by itself", options)


def _result(reserved_mib: float | None, moves: bool, reason: str, knob: str, options: VllmOptions) -> KvTokens:
    weights, bytes_ = options.weights_gib, options.kv_bytes_per_token
    gap = missing(weights_gib=weights, kv_bytes_per_token=bytes_, **{"graph memory": reserved_mib})
    if weights is None or bytes_ is None or reserved_mib is None:
        return KvTokens(None, moves, reason + gap, knob)
    held = weights + (options.activation_gib or 0.0)
    free_mib = (options.gpu_memory_gib * options.gpu_memory_utilization - held) * GIB_IN_MIB - reserved_mib
    note = "" if options.activation_gib is not None else " An upper bound: activation_gib is not known."
    return KvTokens(tokens_in(free_mib, bytes_), moves, reason + note, knob)
