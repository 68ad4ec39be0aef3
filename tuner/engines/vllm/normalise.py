"""What vLLM makes of a requested list: the filters at start-up, then the graphs of the model runner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from packaging.version import Version

from tuner.engines.base import Effective, SizeChange
from tuner.engines.sizes import dropped, round_up, unique
from tuner.engines.vllm import facts
from tuner.engines.vllm.ladder import default_list
from tuner.engines.vllm.options import VllmOptions


@dataclass(frozen=True, slots=True)
class CaptureList:
    """`cudagraph_capture_sizes` after vLLM's own resolution; `refused` is the error it starts with instead."""

    sizes: tuple[int, ...]
    changes: tuple[SizeChange, ...] = ()
    refused: str | None = None


def filters_by_tp(options: VllmOptions, version: Version) -> bool:
    """To 0.31 sequence parallelism removed sizes that tensor parallelism does not divide."""
    parallel = options.enable_sequence_parallelism and options.tensor_parallel_size > 1
    return parallel and not facts.NO_TP_FILTER.holds(version)


def decode_multiple(options: VllmOptions, version: Version) -> int:
    """Every size of a list that is captured as asked, in both families, is a multiple of this."""
    return lcm(options.query_tokens, options.tensor_parallel_size if filters_by_tp(options, version) else 1)


def resolve(asked: tuple[int, ...] | None, options: VllmOptions, version: Version) -> CaptureList:
    """The list that the runner gets (`config/vllm.py:2560-2650`, `config/compilation.py:1537`)."""
    default = default_list(options, version)
    if not facts.MODERN_LIST.holds(version):
        return _resolve_old(asked, default, options, version)
    # The default handed back is the default: its own end is then no mismatch with an explicit maximum.
    resolved = CaptureList(default) if asked in (None, default) else _user_list(asked or (), options)
    if resolved.refused is None and filters_by_tp(options, version):
        resolved = _keep_tp_multiples(resolved, options)
    if resolved.refused is None and _rounds_the_list(options):
        resolved = _round_to_queries(resolved, options, version)
    return resolved


def effective(asked: tuple[int, ...] | None, options: VllmOptions, version: Version) -> Effective:
    """Captured sizes by family; graph count is (piecewise + full) x LoRA cases."""
    if options.mode == "NONE":
        return Effective({}, 0)
    resolved = resolve(asked, options, version)
    if resolved.refused is not None:
        return Effective({}, 0, resolved.changes, resolved.refused)
    blocks = options.mamba_cache_blocks
    if blocks is not None and options.max_num_seqs > blocks and options.mode != "PIECEWISE":
        reason = f"ValueError: max_num_seqs ({options.max_num_seqs}) exceeds the Mamba cache blocks ({blocks})"
        return Effective({}, 0, resolved.changes, reason)
    families: dict[str, tuple[int, ...]] = {}
    changes, repeated = list(resolved.changes), 0
    if options.mode == "FULL":
        families["decode_full"] = resolved.sizes  # one set of FULL graphs serves decode and mixed steps
    elif options.mode != "PIECEWISE":
        full = [_full_decode(resolved.sizes, q, most, options, version) for q, most in _tiers(options, version)]
        families["decode_full"] = unique(size for sizes, _ in full for size in sizes)
        changes += [change for _, rounded in full for change in rounded]
        # Every tier of a dynamic schedule has graphs of its own, also where two tiers share a token count.
        repeated = sum(len(sizes) for sizes, _ in full) - len(families["decode_full"])
    if options.mode in ("PIECEWISE", "FULL_AND_PIECEWISE"):
        families["decode_piecewise"] = resolved.sizes
    graphs = (sum(len(sizes) for sizes in families.values()) + repeated) * options.lora_cases
    return Effective(families, graphs, tuple(dict.fromkeys(changes)))


def _tiers(options: VllmOptions, version: Version) -> tuple[tuple[int, int], ...]:
    """(q, most requests) that the runner captures FULL decode graphs for; V2 takes every request count for each q."""
    if options.use_v2_model_runner and options.tiers:
        return tuple((q, options.max_num_seqs) for q, _ in options.dynamic_tiers)
    return ((options.query_tokens, options.max_num_seqs),)


def _resolve_old(
    asked: tuple[int, ...] | None, default: tuple[int, ...], options: VllmOptions, version: Version
) -> CaptureList:
    """To 0.11.0: --cuda-graph-sizes where it exists, else the unfiltered list of the compilation config."""
    if asked is not None and not asked:
        return CaptureList((), refused="the list of capture sizes is empty")
    if asked is None or asked == default:
        resolved = CaptureList(default)
    elif not facts.SIZES_FLAG.known_in(version):
        return CaptureList(unique(asked))
    elif len(asked) == 1:
        ladder = default_list(replace(options, max_cudagraph_capture_size=asked[0]), version)
        added = [SizeChange("capture", None, size, "one value is a maximum") for size in ladder if size not in asked]
        lost = dropped(
            "capture", [asked[0]] if asked[0] not in ladder else [], "one value is a maximum, off the step of 8"
        )
        resolved = CaptureList(ladder, (*added, *lost))
    else:
        resolved = _user_list(asked, replace(options, max_cudagraph_capture_size=None))
    filtered = resolved.refused is None and filters_by_tp(options, version)
    return _keep_tp_multiples(resolved, options) if filtered else resolved


def _user_list(asked: tuple[int, ...], options: VllmOptions) -> CaptureList:
    if not asked:
        return CaptureList((), refused="AssertionError: cudagraph_capture_sizes should contain at least one element")
    budget = options.max_num_batched_tokens
    kept = unique(size for size in asked if size <= budget)
    lost = unique(size for size in asked if size > budget)
    changes = tuple(dropped("capture", lost, f"above max_num_batched_tokens ({budget})"))
    explicit = options.max_cudagraph_capture_size
    last = kept[-1] if kept else 0
    if explicit is not None and explicit != last:
        message = f"ValueError: max_cudagraph_capture_size ({explicit}) must equal the largest kept size ({last})"
        return CaptureList((), changes, message)
    if not kept:
        return CaptureList((), changes, f"every size is above max_num_batched_tokens ({budget})")
    return CaptureList(kept, changes)


def _keep_tp_multiples(resolved: CaptureList, options: VllmOptions) -> CaptureList:
    tp = options.tensor_parallel_size
    kept = tuple(size for size in resolved.sizes if size % tp == 0)
    lost = [size for size in resolved.sizes if size % tp]
    changes = (*resolved.changes, *dropped("capture", lost, f"not a multiple of tensor_parallel_size ({tp})"))
    return CaptureList(kept, changes, None if kept else f"no size is a multiple of tensor_parallel_size ({tp})")


def _rounds_the_list(options: VllmOptions) -> bool:
    """Model runner V1 rounds the whole list for FULL decode with speculation; V2 leaves it alone."""
    full_decode = options.mode in ("FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
    return full_decode and options.query_tokens > 1 and not options.use_v2_model_runner


def _round_to_queries(resolved: CaptureList, options: VllmOptions, version: Version) -> CaptureList:
    q, largest = options.query_tokens, resolved.sizes[-1]
    if filters_by_tp(options, version):
        q = max(q, options.tensor_parallel_size)
        if q % options.query_tokens or q % options.tensor_parallel_size:
            reason = f"ValueError: no shape is a multiple of {options.query_tokens} tokens a request and of the TP size"
            return CaptureList((), resolved.changes, reason)
    changes = list(resolved.changes)
    kept: set[int] = set()
    for size in resolved.sizes:
        target = round_up(size, q)
        if target > largest:
            changes += dropped("capture", [size], f"rounds up to {target}, above the largest size ({largest})")
            continue
        kept.add(target)
        if target != size:
            changes.append(SizeChange("capture", size, target, f"rounded up to a multiple of {q} tokens a request"))
    if not kept and q <= largest:
        kept = {q}
        changes.append(SizeChange("capture", None, q, "the only multiple that fits"))
    if not kept:
        reason = f"ValueError: no valid cudagraph sizes after rounding to multiple of {q} (num_speculative_tokens + 1)"
        return CaptureList((), tuple(changes), reason)
    return CaptureList(unique(kept), tuple(changes))


def _full_decode(
    sizes: tuple[int, ...], q: int, most_requests: int, options: VllmOptions, version: Version
) -> tuple[tuple[int, ...], list[SizeChange]]:
    """FULL decode graphs: whole requests, at most max_num_seqs of them (0.33.0 `cudagraph_utils.py:255-345`)."""
    largest, most = sizes[-1], most_requests * options.query_tokens
    rounds = options.use_v2_model_runner and facts.MODERN_LIST.holds(version)
    kept: set[int] = set()
    changes: list[SizeChange] = []
    for size in sizes:
        target = round_up(size, q) if rounds else size
        if target > most or target > most_requests * q:
            # Not worth a line otherwise: such sizes serve mixed steps, which is what they are there for.
            if options.mode == "FULL_DECODE_ONLY":
                reason = f"above max_num_seqs x {q} ({most_requests * q}), no decode step is that large"
                changes += dropped("capture", [size], reason)
        elif target > largest:
            reason = f"as FULL rounds up to {target}, above the largest size ({largest})"
            changes += dropped("capture", [size], reason)
        elif target >= q:
            kept.add(target)
            if target != size:
                changes.append(SizeChange("capture", size, target, f"as FULL rounded up to a multiple of {q}"))
    return unique(kept), changes
