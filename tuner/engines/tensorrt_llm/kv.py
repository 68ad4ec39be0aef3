"""TensorRT-LLM's KV cache: a share of what a trial run with graphs leaves free."""

from __future__ import annotations

from tuner.engines.kv import GIB_IN_MIB, KvTokens, missing, tokens_in
from tuner.engines.tensorrt_llm.options import TensorrtLlmOptions


def kv_tokens(options: TensorrtLlmOptions, captured_mib: float | None) -> KvTokens:
    """KV capacity of one rank; `max_tokens` is an upper bound beside the memory fraction (pull request 13393)."""
    weights, bytes_ = options.weights_gib, options.kv_bytes_per_token
    reason = "A trial run measures what weights, activations and graphs leave; the KV cache gets its fraction of that."
    knob = "nothing to set: memory that graphs leave free becomes KV cache, up to kv_cache_config.max_tokens"
    gap = missing(weights_gib=weights, kv_bytes_per_token=bytes_, **{"graph memory": captured_mib})
    if weights is None or bytes_ is None or captured_mib is None:
        return KvTokens(options.max_tokens, options.max_tokens is None, reason + gap, knob)
    held_gib = weights + (options.activation_gib or 0.0)
    free_mib = (options.gpu_memory_gib - held_gib) * GIB_IN_MIB - captured_mib
    tokens = tokens_in(free_mib * options.free_gpu_memory_fraction, bytes_)
    note = "" if options.activation_gib is not None else " An upper bound: activation_gib is not known."
    if options.max_tokens is not None and options.max_tokens <= tokens:
        return KvTokens(options.max_tokens, False, "kv_cache_config.max_tokens is the smaller bound.", "max_tokens")
    return KvTokens(tokens, True, reason + note, knob)
