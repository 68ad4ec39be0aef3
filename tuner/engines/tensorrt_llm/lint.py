"""Findings about a TensorRT-LLM batch size list. Thread numbers are TensorRT-LLM issues and pull requests."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.base import Lists, Problem
from tuner.engines.sizes import requested, shape_problems, some, unique
from tuner.engines.tensorrt_llm import normalise
from tuner.engines.tensorrt_llm.ladder import default_list
from tuner.engines.tensorrt_llm.options import TensorrtLlmOptions


def problems(lists: Lists, options: TensorrtLlmOptions, version: Version) -> list[Problem]:
    """Everything wrong or suspicious, errors first."""
    asked = requested(lists, "decode")
    prefill = requested(lists, "prefill")
    outcome = normalise.effective(asked, None, options, version)
    found = shape_problems("decode", asked) if asked else []
    sizes = unique(asked) if asked else default_list(options.cuda_graph_max_batch_size, options.enable_padding, version)
    found += _above(sizes if asked else (), options)
    if outcome.refused is not None:
        found.append(_refusal(asked, sizes, options, outcome.refused))
    elif outcome.families["decode_full"][-1] < options.largest:
        last = outcome.families["decode_full"][-1]
        message = f"Batches of {last + 1} to {options.largest} requests run without a graph."
        fix = list(unique([*outcome.families["decode_full"], options.largest]))
        found.append(Problem("TOP_NOT_COVERED", message, "warning", fix))
    if not options.enable_padding:
        message = "enable_padding is false, so only exactly captured batch sizes replay."
        found.append(Problem("EXACT_ONLY", message, "warning", {"enable_padding": True}))
    found += _prefill(prefill, options)
    order = ("error", "warning", "info")
    return sorted(found, key=lambda problem: order.index(problem.severity))


def _prefill(asked: tuple[int, ...] | None, options: TensorrtLlmOptions) -> list[Problem]:
    if not asked:
        return []
    found = shape_problems("prefill", asked)
    kept, changes = normalise.prefill(asked, options)
    lost = [change.requested for change in changes if change.requested is not None]
    if lost:
        message = f"TensorRT-LLM does not capture prefill sizes {some(lost)} as asked: {changes[0].reason}."
        found.append(Problem("PREFILL_ABOVE_LIMIT", message, "warning", list(kept)))
    return found


def _above(sizes: tuple[int, ...], options: TensorrtLlmOptions) -> list[Problem]:
    limit = options.largest
    above = [size for size in sizes if size > limit]
    if not above:
        return []
    instead = f"captures {limit} instead of {above[0]}" if options.enable_padding else "captures none in their place"
    message = f"TensorRT-LLM drops {some(above)}: no step is larger than {limit} requests; it {instead}."
    fix = list(unique([*(size for size in sizes if size <= limit), limit]))
    return [Problem("ABOVE_LIMIT", message, "warning", fix)]


def _refusal(
    asked: tuple[int, ...] | None, sizes: tuple[int, ...], options: TensorrtLlmOptions, reason: str
) -> Problem:
    message = f"TensorRT-LLM does not start: {reason}."
    explicit = options.cuda_graph_max_batch_size
    if asked is not None and not asked:
        return Problem("EMPTY_LIST", message, "error", list(sizes))
    if asked is not None and explicit is not None and explicit != max(asked):
        return Problem("MAX_MISMATCH", message, "error", {"cuda_graph_max_batch_size": max(asked)})
    usable = list(unique([*(size for size in sizes if size <= options.largest), options.largest]))
    if options.backend == "_autodeploy":
        usable = list(unique([*usable, options.max_batch_size]))
        return Problem("AUTODEPLOY_TOP", message, "error", usable)
    return Problem("EMPTY_AFTER_FILTER", message, "error", usable)
