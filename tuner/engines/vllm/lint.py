"""Findings about a vLLM capture list. Thread numbers are vLLM issues and pull requests."""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from tuner.engines.base import Effective, Lists, Problem
from tuner.engines.sizes import requested, round_up, shape_problems, some, unique
from tuner.engines.vllm import facts, normalise
from tuner.engines.vllm.export import is_single_value_max, lacks_flag
from tuner.engines.vllm.ladder import default_list
from tuner.engines.vllm.options import VllmOptions


def problems(lists: Lists, options: VllmOptions, version: Version) -> list[Problem]:
    """Everything wrong or suspicious, errors first."""
    asked = requested(lists, "capture")
    asked = None if asked == default_list(options, version) else asked
    outcome = normalise.effective(asked, options, version)
    found = _flags(asked, options, version)
    if options.mode == "NONE":
        found.append(
            Problem("GRAPHS_OFF", "No graph is captured: cudagraph_mode is NONE or eager is enforced.", "warning")
        )
    elif outcome.refused is not None:
        found.append(_refusal(asked, options, version, outcome.refused))
    else:
        found += _coverage(asked, outcome, options, version)
    if asked is not None:
        found += _sizes(asked, options, version)
    else:
        found += _truncation(options, version)
    order = ("error", "warning", "info")
    return sorted(found, key=lambda problem: order.index(problem.severity))


def _flags(asked: tuple[int, ...] | None, options: VllmOptions, version: Version) -> list[Problem]:
    found: list[Problem] = []
    missing = lacks_flag(version)
    if missing is not None:
        message = f"{missing}; the list goes into --compilation-config, where this version does not check it."
        found.append(Problem("FLAG_ABSENT", message, "info"))
    found += _absent_options(options, version)
    if asked is not None and is_single_value_max(unique(asked), version):
        message = (
            f"vLLM {version} reads the single value {asked[0]} as a maximum and captures every step of 8 up to it."
        )
        found.append(Problem("SINGLE_SIZE_IS_MAX", message, "error", _with(asked, options.top_decode_tokens)))
    return found


def _absent_options(options: VllmOptions, version: Version) -> list[Problem]:
    """Options that are set although this version has no such argument."""
    absent: list[tuple[str, Any, str]] = []
    if options.performance_mode != "balanced" and not facts.PERFORMANCE_MODE.known_in(version):
        absent.append(("performance_mode", "balanced", str(facts.PERFORMANCE_MODE.since)))
    if options.num_speculative_tokens_per_batch_size and not facts.DECODE_LADDER.holds(version):
        absent.append(("num_speculative_tokens_per_batch_size", None, str(facts.DECODE_LADDER.since)))
    return [
        Problem("FLAG_ABSENT", f"vLLM {version} has no {name}; {since} or later has it.", "warning", {name: instead})
        for name, instead, since in absent
    ]


def _refusal(asked: tuple[int, ...] | None, options: VllmOptions, version: Version, reason: str) -> Problem:
    if "Mamba" in reason:
        message = f"vLLM does not start: {reason} (#49064, #38270)."
        return Problem("MAMBA_BLOCKS", message, "error", {"max_num_seqs": options.mamba_cache_blocks})
    kept = [size for size in unique(asked or ()) if size <= options.max_num_batched_tokens]
    explicit = options.max_cudagraph_capture_size
    default = list(default_list(options, version))
    if asked is not None and not asked:
        return Problem("EMPTY_LIST", f"vLLM refuses an empty list ({reason}).", "error", default)
    if explicit is not None and explicit != (kept[-1] if kept else 0):
        fix = {"max_cudagraph_capture_size": kept[-1]} if kept else default
        return Problem("MAX_MISMATCH", f"vLLM does not start: {reason}.", "error", fix)
    return Problem("EMPTY_AFTER_FILTER", f"vLLM keeps no size of this list: {reason}.", "error", default)


def _coverage(
    asked: tuple[int, ...] | None, outcome: Effective, options: VllmOptions, version: Version
) -> list[Problem]:
    found: list[Problem] = []
    top = options.top_decode_tokens
    full = outcome.families.get("decode_full", ())
    every = outcome.families.get("decode_piecewise", full)
    sizes = every or full
    if not sizes or sizes[-1] < top:
        last = sizes[-1] if sizes else 0
        message = (
            f"Decode steps above {last} tokens run without a graph, but {options.max_num_seqs} requests make steps of "
            f"up to {top}."
        )
        found.append(Problem("TOP_NOT_COVERED", message, "warning", _with(sizes, top)))
    elif options.mode != "PIECEWISE" and (not full or full[-1] < top):
        first = (full[-1] if full else 0) + options.query_tokens
        message = (
            f"Decode steps of {first} to {top} tokens have no FULL graph and fall to PIECEWISE, because the next size "
            f"pads past max_num_seqs (#57355)."
        )
        found.append(Problem("TOP_FALLS_TO_PIECEWISE", message, "warning", _with(sizes, top)))
    found += _tiers(full, options, version)
    if asked is not None and "decode_piecewise" in outcome.families:
        found += _mixed_tail(every, options, version)
    return found


def _tiers(full: tuple[int, ...], options: VllmOptions, version: Version) -> list[Problem]:
    """Dynamic speculation runs every tier at a q of its own; each needs its largest batch among the sizes."""
    if not options.tiers or options.mode == "PIECEWISE":
        return []
    tops = [requests * q for q, requests in options.dynamic_tiers]
    bare = [top for top in tops if not full or top > full[-1]]
    if not bare:
        return []
    message = f"Tiers of the draft schedule reach {some(bare)} tokens without a FULL graph (#48494)."
    return [Problem("TIER_NOT_COVERED", message, "warning", list(unique([*full, *bare])))]


def _mixed_tail(sizes: tuple[int, ...], options: VllmOptions, version: Version) -> list[Problem]:
    """Steps that mix prefill and decode are larger than any decode step; the default covers some of them."""
    default = default_list(options, version)
    if sizes[-1] >= default[-1]:
        return []
    span = f"{sizes[-1] + 1} to {default[-1]}"
    message = f"Mixed prefill and decode steps of {span} tokens lose the graph that the default gives them."
    return [Problem("MIXED_TAIL_UNCOVERED", message, "info", _with(sizes, default[-1]))]


def _sizes(asked: tuple[int, ...], options: VllmOptions, version: Version) -> list[Problem]:
    found = shape_problems("capture", asked)
    budget = options.max_num_batched_tokens
    above = [size for size in unique(asked) if size > budget]
    if above:
        kept = [size for size in unique(asked) if size <= budget]
        message = (
            f"vLLM drops {some(above)}: above max_num_batched_tokens ({budget}), so steps near {budget} tokens may run "
            "without a graph (#40734)."
        )
        found.append(Problem("ABOVE_LIMIT", message, "warning", _with(kept, budget)))
    found += _multiples(asked, options, version)
    most = options.max_num_seqs * options.query_tokens
    never = [size for size in unique(asked) if round_up(size, options.query_tokens) > most and size <= budget]
    if options.mode == "FULL_DECODE_ONLY" and never:
        message = f"{some(never)} can never be captured: no decode step is larger than {most} tokens."
        keep = [size for size in unique(asked) if size not in never]
        found.append(Problem("UNREACHABLE_SIZE", message, "warning", keep))
    return found


def _multiples(asked: tuple[int, ...], options: VllmOptions, version: Version) -> list[Problem]:
    multiple = normalise.decode_multiple(options, version)
    odd = [size for size in unique(asked) if size % multiple]
    if not odd:
        return []
    fix = [
        size for size in unique(round_up(size, multiple) for size in asked) if size <= options.max_num_batched_tokens
    ]
    if normalise.filters_by_tp(options, version) and options.query_tokens == 1:
        message = (
            f"{some(odd)} are removed: not multiples of tensor_parallel_size ({multiple}) under sequence parallelism."
        )
    else:
        message = (
            f"{some(odd)} are not multiples of {multiple} tokens; no decode step of whole requests has such a size, "
            f"and PIECEWISE replays of them have crashed with speculation (#46324)."
        )
    return [Problem("NOT_MULTIPLE", message, "warning", fix)]


def _truncation(options: VllmOptions, version: Version) -> list[Problem]:
    explicit = options.max_cudagraph_capture_size
    last = default_list(options, version)[-1]
    if explicit is None or explicit == last:
        return []
    message = f"max_cudagraph_capture_size {explicit} is truncated to {last}: the ladder has no such size (#54933)."
    return [
        Problem(
            "TRUNCATED",
            message,
            "warning",
            {"cudagraph_capture_sizes": _with(default_list(options, version), explicit)},
        )
    ]


def _with(sizes: tuple[int, ...] | list[int], extra: int) -> list[int]:
    return list(unique([*sizes, extra]))
