"""What TensorRT-LLM makes of requested batch sizes: the config's checks, then the executor's filter."""

from __future__ import annotations

from tuner.engines.base import Effective, SizeChange
from tuner.engines.sizes import dropped, unique
from tuner.engines.tensorrt_llm.ladder import default_list
from tuner.engines.tensorrt_llm.options import TensorrtLlmOptions


def effective(asked: tuple[int, ...] | None, options: TensorrtLlmOptions) -> Effective:
    """Captured decode graphs; refused where the config or AutoDeploy raises."""
    explicit = options.cuda_graph_max_batch_size
    if asked is not None and not asked:
        return Effective({}, 0, refused="an empty batch_sizes list")
    if asked is not None and explicit is not None and explicit != max(asked):
        reason = f"ValueError: cuda_graph_config.max_batch_size ({explicit}) must equal max(batch_sizes) ({max(asked)})"
        return Effective({}, 0, refused=reason)
    sizes = default_list(explicit, options.enable_padding) if asked is None else unique(asked)
    kept, changes = _executor_filter(sizes, options)
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
