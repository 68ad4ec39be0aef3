"""What SGLang makes of requested lists right before capture."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

from tuner.engines.base import Effective, SizeChange
from tuner.engines.sglang.alignment import alignment, decode_multiple, largest_decode
from tuner.engines.sglang.ladder import default_decode, default_prefill
from tuner.engines.sglang.options import SglangOptions
from tuner.engines.sizes import dropped, round_up, unique


@dataclass(frozen=True, slots=True)
class CaptureList:
    """One list after the filter; `refused` is the error SGLang stops with instead."""

    sizes: tuple[int, ...]
    changes: tuple[SizeChange, ...] = ()
    refused: str | None = None


def decode(asked: tuple[int, ...] | None, options: SglangOptions, version: Version) -> CaptureList:
    """The final filter of decode sizes (0.5.23 `runner/base_cuda_graph_runner.py:65-110`)."""
    if options.decode_off:
        return CaptureList((), tuple(dropped("decode", unique(asked or ()), "decode graphs are disabled")))
    sizes = default_decode(options, version) if asked is None else asked
    if not sizes:
        return CaptureList((), refused="the decode list is empty (AssertionError)")
    limit, multiple = largest_decode(options, version), decode_multiple(options, version)
    changes: list[SizeChange] = []
    candidates = set(sizes)
    if max(sizes) > limit and limit not in candidates:
        candidates.add(limit)
        reason = f"the largest size is above the request pool ({limit}), which SGLang then adds"
        changes.append(SizeChange("decode", None, limit, reason))
    above = unique(size for size in candidates if size > limit)
    odd = unique(size for size in candidates if size % multiple and size <= limit)
    changes += dropped("decode", above, f"above the request pool of one rank ({limit})")
    changes += dropped("decode", [size for size in odd if size in sizes], _misaligned(options, version))
    kept = unique(size for size in candidates if size <= limit and size % multiple == 0)
    if not kept:
        return CaptureList((), tuple(changes), "no decode size is left after the filter (AssertionError)")
    return CaptureList(kept, tuple(changes))


def prefill(asked: tuple[int, ...] | None, options: SglangOptions, version: Version) -> CaptureList:
    """Prefill sizes in tokens: bounded, then rounded up (0.5.23 `cuda_graph_setup.py:560-620`). May end up empty."""
    sizes = default_prefill(options, version) if asked is None else asked
    off = options.prefill_off
    if off is None and asked is None and not options.enable_piecewise_cuda_graph:
        return CaptureList(())
    if off is not None:
        return CaptureList((), tuple(dropped("prefill", unique(asked or ()), off)))
    deepep, a = options.prefill_multiple, alignment(options, version)
    limit = options.largest_prefill
    above = [] if limit is None else [size for size in unique(sizes) if size > limit]
    changes = dropped("prefill", above, f"above request slots x context length ({limit})")
    kept: set[int] = set()
    for size in unique(sizes):
        if size in above:
            continue
        target = round_up(round_up(size, deepep), a)
        kept.add(target)
        if target != size:
            why = f"a multiple of {a}" if deepep == 1 else f"multiples of {deepep} (DeepEP) and {a}"
            changes.append(SizeChange("prefill", size, target, f"rounded up to {why}"))
    return CaptureList(unique(kept), tuple(changes))


def effective(
    decode_asked: tuple[int, ...] | None,
    prefill_asked: tuple[int, ...] | None,
    options: SglangOptions,
    version: Version,
) -> Effective:
    """Captured sizes by family. Draft graphs reuse the decode list; LoRA doubles the target's graphs."""
    of_decode, of_prefill = decode(decode_asked, options, version), prefill(prefill_asked, options, version)
    changes = (*of_decode.changes, *of_prefill.changes)
    if of_decode.refused is not None:
        return Effective({}, 0, changes, of_decode.refused)
    families: dict[str, tuple[int, ...]] = {}
    graphs = 0
    if of_decode.sizes:
        families["decode_full"] = of_decode.sizes
        graphs += len(of_decode.sizes) * (2 if options.enable_lora else 1)
        for family in options.draft_families:
            families[family] = of_decode.sizes
            graphs += len(of_decode.sizes)
    if of_prefill.sizes:
        families["prefill_breakable"] = of_prefill.sizes
        graphs += len(of_prefill.sizes)
    return Effective(families, graphs, changes)


def _misaligned(options: SglangOptions, version: Version) -> str:
    a = alignment(options, version)
    width = "" if decode_multiple(options, version) == a else f" x {options.verify_tokens} draft tokens"
    return f"size{width} is not a multiple of {a} (attention TP, two-batch overlap, context parallelism)"
