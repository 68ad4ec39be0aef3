"""What TensorRT-LLM makes of requested batch sizes: the config's checks, then the executor's filter."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.base import Effective, SizeChange
from tuner.engines.sizes import dropped, unique
from tuner.engines.tensorrt_llm.ladder import default_list
from tuner.engines.tensorrt_llm.options import TensorrtLlmOptions, read_thresholds


def effective(
    asked: tuple[int, ...] | None, prefill_asked: tuple[int, ...] | None, options: TensorrtLlmOptions, version: Version
) -> Effective:
    """Captured graphs by family; refused where the config or AutoDeploy raises."""
    outcome = _decode(asked, options, version)
    sizes, changes = prefill(prefill_asked, options)
    if outcome.refused is not None or not (sizes or changes):
        return outcome
    families = {**outcome.families, **({"prefill_piecewise": sizes} if sizes else {})}
    return Effective(families, outcome.graphs + len(sizes), (*outcome.changes, *changes))


def prefill(
    asked: tuple[int, ...] | None, options: TensorrtLlmOptions
) -> tuple[tuple[int, ...], tuple[SizeChange, ...]]:
    """Prefill sizes in tokens: bounded and clamped, never added to. Without a list none is captured."""
    if not asked:
        return (), ()
    budget, most = options.max_num_tokens, options.largest_prefill
    above = [size for size in unique(asked) if size > budget]
    changes = dropped("prefill", above, f"above max_num_tokens ({budget})")
    kept: set[int] = set()
    for size in unique(asked):
        if size in above:
            continue
        target = size if most is None else min(size, most)
        kept.add(target)
        if target != size:
            changes.append(
                SizeChange("prefill", size, target, f"clamped to max_batch_size x (max_seq_len - 1) ({most})")
            )
    return unique(kept), tuple(changes)


def _decode(asked: tuple[int, ...] | None, options: TensorrtLlmOptions, version: Version) -> Effective:
    explicit = options.cuda_graph_max_batch_size
    if asked is not None and not asked:
        return Effective({}, 0, refused="an empty batch_sizes list")
    if asked is not None and explicit is not None and explicit != max(asked):
        reason = f"ValueError: cuda_graph_config.max_batch_size ({explicit}) must equal max(batch_sizes) ({max(asked)})"
        return Effective({}, 0, refused=reason)
    sizes = default_list(explicit, options.enable_padding, version) if asked is None else unique(asked)
    thresholds = [size for size in read_thresholds(options.draft_len_schedule) if size not in sizes]
    kept, changes = _executor_filter(unique([*sizes, *thresholds]), options)
    added = [
        SizeChange("decode", None, size, "a threshold of draft_len_schedule") for size in thresholds if size in kept
    ]
    changes = (*added, *changes)
    if not kept:
        return Effective({}, 0, changes, f"no batch size is within {options.largest} requests")
    if options.backend == "_autodeploy" and kept[-1] < options.max_batch_size:
        reason = f"AssertionError: AutoDeploy needs max_batch_size ({options.max_batch_size}) in its list (#7675)"
        return Effective({}, 0, changes, reason)
    return Effective({"decode_full": kept}, len(kept), changes)


def _executor_filter(
    sizes: tuple[int, ...], options: TensorrtLlmOptions
) -> tuple[tuple[int, ...], tuple[SizeChange, ...]]:
    """Sizes above L are dropped; with padding the first of them becomes L, so that L is captured."""
    limit = options.largest
    kept = tuple(size for size in sizes if size <= limit)
    above = [size for size in sizes if size > limit]
    reason = f"above min(max_batch_size, max_num_tokens // (1 + draft tokens)) = {limit}"
    if not above or not options.enable_padding or limit in kept:
        return kept, tuple(dropped("decode", above, reason))
    replaced = SizeChange("decode", above[0], limit, f"{reason}, replaced so that it is captured")
    return (*kept, limit), (replaced, *dropped("decode", above[1:], reason))
