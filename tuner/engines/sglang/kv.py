"""SGLang's memory reservation, which decides the KV cache before anything is captured."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.base import Lists
from tuner.engines.kv import GIB_IN_MIB, KvTokens, missing, tokens_in
from tuner.engines.sglang import facts
from tuner.engines.sglang.ladder import default_decode, default_prefill
from tuner.engines.sglang.options import SglangOptions
from tuner.engines.sizes import requested

_FLOOR_MIB, _FLOOR_ABOVE_GIB = 10 * 1024, 60
_WIDE_DP_MAX_BS = 300


def graph_mib(lists: Lists, options: SglangOptions, version: Version) -> float:
    """MiB set aside for graphs: by the largest decode size, never by the length of the decode list.

    Source: 0.5.23 `arg_groups/memory_hook.py:345-390`.
    """
    decode, prefill = requested(lists, "decode"), requested(lists, "prefill")
    mib = 0.0
    largest = max(default_decode(options, version) if decode is None else decode, default=0)
    if not options.decode_off:
        mib += 2.0 * largest
    if options.attention_dp > 1:
        mib += 3.0 * largest * options.attention_dp
        if largest > _WIDE_DP_MAX_BS:
            mib += 1.5 * largest * options.attention_dp
    captured = default_prefill(options, version) if prefill is None else prefill
    on = options.prefill_off is None and (prefill is not None or options.enable_piecewise_cuda_graph)
    if on and captured:
        mib += 1536.0 if options.use_mla else 8.0 * len(captured)
        if facts.PADDING_FACTOR.holds(version) and options.moe_a2a_backend == "deepep":
            mib += 1024.0
    return mib


def reserved_mib(lists: Lists, options: SglangOptions, version: Version) -> float:
    """MiB kept from weights and KV cache when mem_fraction_static is unset (`memory_hook.py:275-340`)."""
    parallel = options.tp_size * options.pp_size / 8 * 1024
    if options.post_capture_kv_sizing:
        return 1536 + parallel
    tokens = options.chunked_prefill_size if options.chunked_prefill_size > 0 else options.max_prefill_tokens
    mib = 512 + 1.5 * max(tokens, 2048) + parallel + graph_mib(lists, options, version)
    if options.gpu_memory_gib > _FLOOR_ABOVE_GIB:
        mib = max(mib, float(_FLOOR_MIB))
    if facts.PADDING_FACTOR.holds(version) and options.moe_a2a_backend == "deepep" and not options.decode_off:
        mib += 2048
    return mib + _draft_mib(options, version)


def _draft_mib(options: SglangOptions, version: Version) -> float:
    """To 0.5.13 a fixed amount for draft models and their graphs."""
    algorithm = options.speculative_algorithm
    if algorithm is None or algorithm.upper() == "NGRAM" or facts.PHASES.holds(version):
        return 0.0
    if algorithm.upper() == "STANDALONE":
        return 6144.0
    return 4096.0 if facts.MAX_APPENDED.holds(version) else 2048.0


def mem_fraction(lists: Lists, options: SglangOptions, version: Version) -> float:
    """The share of the GPU that weights and KV cache get, rounded as SGLang rounds it."""
    if options.mem_fraction_static is not None:
        return options.mem_fraction_static
    gpu_mib = options.gpu_memory_gib * GIB_IN_MIB
    return round((gpu_mib - reserved_mib(lists, options, version)) / gpu_mib, 3)


def kv_tokens(lists: Lists, options: SglangOptions, version: Version, captured_mib: float | None) -> KvTokens:
    """KV capacity of one rank. `captured_mib` is what the graphs really take; only post-capture sizing looks at it."""
    knob = "set mem_fraction_static higher by the saved share of the GPU"
    if options.max_total_tokens is not None:
        return KvTokens(options.max_total_tokens, False, "max_total_tokens fixes the KV cache.", "max_total_tokens")
    by_capture = options.post_capture_kv_sizing and options.mem_fraction_static is None
    gap = missing(
        weights_gib=options.weights_gib,
        kv_bytes_per_token=options.kv_bytes_per_token,
        **({"graph memory": captured_mib} if by_capture else {}),
    )
    tokens: int | None = None
    if options.weights_gib is not None and options.kv_bytes_per_token is not None and not gap:
        share = mem_fraction(lists, options, version)
        free_mib = (options.gpu_memory_gib * share - options.weights_gib) * GIB_IN_MIB
        tokens = tokens_in(free_mib - (captured_mib or 0.0 if by_capture else 0.0), options.kv_bytes_per_token)
    if options.mem_fraction_static is not None:
        reason = (
            f"mem_fraction_static {options.mem_fraction_static:g} fixes the KV cache; graphs take what lies beside."
        )
        return KvTokens(tokens, False, reason + gap, knob)
    if by_capture:
        return KvTokens(tokens, True, "The KV cache is sized after capture, by what graphs really took." + gap, "")
    moves = reserved_mib(lists, options, version) != reserved_mib({"decode": (), "prefill": ()}, options, version)
    reason = (
        "SGLang reserves by the largest decode size and the number of prefill sizes, not by the decode list."
        if moves
        else f"SGLang reserves at least {_FLOOR_MIB} MiB on GPUs above {_FLOOR_ABOVE_GIB} GiB; these lists stay below."
    )
    return KvTokens(tokens, moves, reason + gap, f"{knob}, or SGLANG_ENABLE_POST_CAPTURE_KV_SIZING=1")
