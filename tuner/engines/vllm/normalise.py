"""What vLLM makes of a requested list: the filters at start-up, then the graphs of the model runner."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from packaging.version import Version

from tuner.engines.base import Effective, SizeChange
from tuner.engines.sizes import dropped, round_up, unique
from tuner.engines.vllm.ladder import default_list
from tuner.engines.vllm.options import VllmOptions

TP_FILTER_UNTIL = Version("0.21")
"""Up to at least 0.20 sequence parallelism removed sizes that TP does not divide; absent in 0.33.0."""


@dataclass(frozen=True, slots=True)
class CaptureList:
    """`cudagraph_capture_sizes` after vLLM's own resolution; `refused` is the error it starts with instead."""

    sizes: tuple[int, ...]
    changes: tuple[SizeChange, ...] = ()
    refused: str | None = None


def filters_by_tp(options: VllmOptions, version: Version) -> bool:
    return options.enable_sequence_parallelism and version < TP_FILTER_UNTIL


def decode_multiple(options: VllmOptions, version: Version) -> int:
    """Every size of a list that is captured as asked, in both families, is a multiple of this."""
    return lcm(options.query_tokens, options.tensor_parallel_size if filters_by_tp(options, version) else 1)


def resolve(asked: tuple[int, ...] | None, options: VllmOptions, version: Version) -> CaptureList:
    """The list that the runner gets (`config/vllm.py:2560-2650`, `config/compilation.py:1537`)."""
    default = default_list(options, version)
    # The default handed back is the default: its own end is then no mismatch with an explicit maximum.
    resolved = CaptureList(default) if asked in (None, default) else _user_list(asked or (), options)
    if resolved.refused is None and filters_by_tp(options, version):
        resolved = _keep_tp_multiples(resolved, options)
    if resolved.refused is None and _rounds_the_list(options):
        resolved = _round_to_queries(resolved, options)
    return resolved


def effective(asked: tuple[int, ...] | None, options: VllmOptions, version: Version) -> Effective:
    """Captured sizes by family; graph count is (piecewise + full) x LoRA cases."""
    if options.mode == "NONE":
        return Effective({}, 0)
    resolved = resolve(asked, options, version)
    if resolved.refused is not None:
        return Effective({}, 0, resolved.changes, resolved.refused)
    families: dict[str, tuple[int, ...]] = {}
    changes = list(resolved.changes)
    if options.mode == "FULL":
        families["decode_full"] = resolved.sizes  # one set of FULL graphs serves decode and mixed steps
    elif options.mode != "PIECEWISE":
        families["decode_full"], rounded = _full_decode(resolved.sizes, options)
        changes += rounded
    if options.mode in ("PIECEWISE", "FULL_AND_PIECEWISE"):
        families["decode_piecewise"] = resolved.sizes
    graphs = sum(len(sizes) for sizes in families.values()) * options.lora_cases
    return Effective(families, graphs, tuple(changes))


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


def _round_to_queries(resolved: CaptureList, options: VllmOptions) -> CaptureList:
    q, largest = options.query_tokens, resolved.sizes[-1]
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


def _full_decode(sizes: tuple[int, ...], options: VllmOptions) -> tuple[tuple[int, ...], list[SizeChange]]:
    """FULL decode graphs: rounded to whole requests, at most max_num_seqs of them (`cudagraph_utils.py:255-345`)."""
    q, largest = options.query_tokens, sizes[-1]
    most = options.max_num_seqs * q
    kept: set[int] = set()
    changes: list[SizeChange] = []
    for size in sizes:
        target = round_up(size, q)
        if target > most:
            # Not worth a line for q = 1: such sizes serve mixed steps, which is what they are there for.
            if options.mode == "FULL_DECODE_ONLY":
                changes += dropped(
                    "capture", [size], f"above max_num_seqs x {q} ({most}), no decode step is that large"
                )
            continue
        if target > largest:
            reason = f"as FULL rounds up to {target}, above the largest size ({largest})"
            changes += dropped("capture", [size], reason)
            continue
        kept.add(target)
        if target != size:
            changes.append(SizeChange("capture", size, target, f"as FULL rounded up to a multiple of {q}"))
    return unique(kept), changes
