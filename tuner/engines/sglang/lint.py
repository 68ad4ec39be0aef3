"""Findings about SGLang capture lists. Thread numbers are SGLang issues and pull requests."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.base import Effective, Lists, Problem
from tuner.engines.sglang import facts, normalise
from tuner.engines.sglang.alignment import decode_multiple, largest_decode, largest_usable
from tuner.engines.sglang.export import lacks_prefill_flag
from tuner.engines.sglang.ladder import default_decode, default_prefill
from tuner.engines.sglang.options import SglangOptions
from tuner.engines.sizes import requested, round_up, shape_problems, some, unique

PADDING_FACTOR = 2
"""Prefill runs eager when its bucket exceeds this times the step (0.5.23 `prefill_cuda_graph_runner.py:158`)."""


def problems(lists: Lists, options: SglangOptions, version: Version) -> list[Problem]:
    """Everything wrong or suspicious, errors first."""
    decode, prefill = requested(lists, "decode"), requested(lists, "prefill")
    outcome = normalise.effective(decode, prefill, options, version)
    found = [] if options.decode_off else _decode(decode, outcome, options, version)
    if options.decode_off:
        found.append(Problem("GRAPHS_OFF", "No decode graph is captured: they are disabled.", "warning"))
    found += _prefill(prefill, options, version)
    order = ("error", "warning", "info")
    return sorted(found, key=lambda problem: order.index(problem.severity))


def _decode(
    asked: tuple[int, ...] | None, outcome: Effective, options: SglangOptions, version: Version
) -> list[Problem]:
    found = shape_problems("decode", asked) if asked else []
    sizes = default_decode(options, version) if asked is None else asked
    aligned = unique(round_up(size, decode_multiple(options, version)) for size in sizes)
    top_usable = largest_usable(options, version)
    usable = [size for size in aligned if size <= top_usable] or [top_usable]
    if outcome.refused is not None:
        code = "EMPTY_AFTER_FILTER" if sizes else "EMPTY_LIST"
        return [Problem(code, f"SGLang stops at start-up: {outcome.refused}.", "error", usable), *found]
    found += _filtered(asked, usable, options, version)
    captured = outcome.families["decode_full"]
    top = options.pool_requests
    if captured[-1] < min(top, largest_usable(options, version)):
        message = (
            f"Decode steps of {captured[-1] + 1} to {top} requests run without a graph, and the engine does not say so "
            "(#33483, #33900)."
        )
        fix = list(unique([*captured, largest_usable(options, version)]))
        found.append(Problem("TOP_NOT_COVERED", message, "warning", fix))
    if options.is_hip and 512 in captured:
        message = "Capturing 512 requests has crashed on ROCm (#7847)."
        found.append(Problem("PLATFORM_QUIRK", message, "warning", [size for size in captured if size != 512]))
    if options.disable_cuda_graph_padding and set(captured) != set(range(1, captured[-1] + 1)):
        message = (
            "Padding is disabled, so only exactly captured sizes replay and every other step runs without a graph."
        )
        found.append(Problem("EXACT_ONLY", message, "warning", {"disable_cuda_graph_padding": False}))
    return found


def _filtered(
    asked: tuple[int, ...] | None, usable: list[int], options: SglangOptions, version: Version
) -> list[Problem]:
    if asked is None:
        return []
    found: list[Problem] = []
    limit, multiple = largest_decode(options, version), decode_multiple(options, version)
    above = [size for size in unique(asked) if size > limit]
    if above:
        message = f"SGLang drops {some(above)} and captures {limit}: a rank never runs more than {limit} requests."
        found.append(Problem("ABOVE_LIMIT", message, "warning", sorted({*usable, limit})))
    odd = [size for size in unique(asked) if size % multiple and size <= limit]
    if odd:
        message = f"SGLang silently drops {some(odd)}: not multiples of {multiple} (#5335)."
        found.append(Problem("NOT_MULTIPLE", message, "warning", usable))
    return found


def _prefill(asked: tuple[int, ...] | None, options: SglangOptions, version: Version) -> list[Problem]:
    found = shape_problems("prefill", asked) if asked else []
    if asked and options.prefill_off is not None:
        found.append(Problem("PREFILL_OFF", f"No prefill graph is captured: {options.prefill_off}.", "warning", []))
        return found
    missing = lacks_prefill_flag(version)
    if asked and missing is not None:
        found.append(Problem("FLAG_ABSENT", f"{missing}.", "error"))
    captured = normalise.prefill(asked, options, version).sizes
    sizes = default_prefill(options, version) if asked is None else asked
    if sizes and not captured and options.prefill_off is None:
        message = "No prefill size fits request slots x context length, so SGLang disables prefill graphs."
        found.append(Problem("PREFILL_EMPTY", message, "warning"))
    found += _prefill_tp(asked, options)
    if captured and asked is not None:
        found += _prefill_gaps(captured) if facts.PADDING_FACTOR.holds(version) else []
        found += _prefill_above_limit(asked, options)
    return found


def _prefill_tp(asked: tuple[int, ...] | None, options: SglangOptions) -> list[Problem]:
    width = options.attention_tp
    odd = [size for size in unique(asked or ()) if size % width]
    if not odd:
        return []
    message = f"Prefill sizes {some(odd)} are not multiples of attention TP {width} and break reduce-scatter (#36262)."
    return [Problem("PREFILL_NOT_MULTIPLE", message, "warning", list(unique(round_up(s, width) for s in asked or ())))]


def _prefill_gaps(captured: tuple[int, ...]) -> list[Problem]:
    """Between two far sizes some steps are smaller than half of the next one; those run eager (#31487)."""
    gaps = [
        (low + 1, -(-high // PADDING_FACTOR) - 1)
        for low, high in zip((0, *captured[:-1]), captured, strict=True)
        if low and low + 1 < -(-high // PADDING_FACTOR)
    ]
    if not gaps:
        return []
    spans = some_spans(gaps)
    message = (
        f"Prefill steps of {spans} tokens run eager: their bucket is more than {PADDING_FACTOR}x as large (#31487)."
    )
    return [Problem("PREFILL_GAP", message, "warning", list(_filled(captured)))]


def _filled(captured: tuple[int, ...]) -> tuple[int, ...]:
    """The list with sizes put between, so that no step above the first size is padded past the factor."""
    filled = [captured[0]]
    for high in captured[1:]:
        while filled[-1] + 1 < -(-high // PADDING_FACTOR):
            filled.append(min(PADDING_FACTOR * (filled[-1] + 1), high))
        filled.append(high)
    return unique(filled)


def some_spans(gaps: list[tuple[int, int]], most: int = 3) -> str:
    text = ", ".join(f"{low}-{high}" for low, high in gaps[:most])
    return text if len(gaps) <= most else f"{text} and {len(gaps) - most} more spans"


def _prefill_above_limit(asked: tuple[int, ...], options: SglangOptions) -> list[Problem]:
    limit = options.largest_prefill
    above = [size for size in unique(asked) if limit is not None and size > limit]
    if not above:
        return []
    message = f"SGLang drops prefill sizes {some(above)}: above request slots x context length ({limit})."
    return [Problem("PREFILL_ABOVE_LIMIT", message, "warning", [size for size in unique(asked) if size not in above])]
