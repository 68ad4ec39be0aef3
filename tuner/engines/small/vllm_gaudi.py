"""vllm-gaudi: buckets of (batch size, query, context blocks), from environment variables or from a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tuner.engines import deploy
from tuner.engines.facts import Facts, flag
from tuner.engines.options import require_positive
from tuner.engines.sizes import unique
from tuner.engines.small.base import Captured, SingleList, bounded
from workloads.serving.limits import SchedulerLimits

FILE_NAME = "gaudi-buckets.txt"
FROM_FILE = flag("VLLM_BUCKETING_FROM_FILE", "buckets", "Path of a bucket file.")
STRATEGY = flag("VLLM_BUCKETING_STRATEGY", "-", "exp (default), lin or pad.")
VARIABLES = flag("VLLM_{PROMPT,DECODE}_{BS,QUERY,BLOCK,CTX}_BUCKET_{MIN,STEP,MAX}", "buckets", "Ranges of lin and pad.")
_QUERY_STEP = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class GaudiOptions:
    """num_gpu_blocks_override is the KV cache in blocks; with contiguous paged attention it bounds the context."""

    max_num_seqs: int = 128
    max_num_batched_tokens: int = 8192
    max_model_len: int = 4096
    block_size: int = 128
    num_gpu_blocks_override: int = 2048

    def __post_init__(self) -> None:
        require_positive(self, "max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size")
        require_positive(self, "num_gpu_blocks_override")


class VllmGaudi(SingleList):
    """The decode list is the batch-size axis; context blocks keep the default's exponential spacing."""

    name: ClassVar[str] = "vllm-gaudi"
    latest: ClassVar[str] = "0.20"
    oldest: ClassVar[str] = "0.10"
    options_type: ClassVar[type[GaudiOptions]] = GaudiOptions
    shown: ClassVar[tuple[str, ...]] = ("max_num_seqs",)
    watch: ClassVar[str] = (
        "The start-up log counts the decode buckets that are warmed up; a step outside of them logs a warning and "
        "compiles. To go back, unset VLLM_BUCKETING_FROM_FILE."
    )
    facts: ClassVar[Facts] = Facts(
        unit="requests, beside query length and context blocks",
        flags=(FROM_FILE, STRATEGY, VARIABLES),
        rules=(
            "The default (exp) has ceil(log2(max_num_seqs)) + 1 batch sizes, exponentially spaced by 2, and 1.",
            "A file line (bs, query, ctx) takes numbers, lists and range(a, b, s) and stands for their product; "
            "query 1 is decode; # starts a comment.",
        ),
        traps=(
            "Bad lines are skipped with a warning.",
            "Prompts above the largest bucket lost 29 % throughput (#1507): the file carries prompt buckets too.",
        ),
        source="vllm-gaudi `extension/bucketing`",
    )

    def ladder(self, options: GaudiOptions) -> tuple[int, ...]:
        return exponential(2, options.max_num_seqs, math.ceil(math.log2(options.max_num_seqs)) + 1)

    def capture(self, asked: tuple[int, ...], options: GaudiOptions) -> Captured:
        if not asked:
            return Captured((), refused="an empty list")
        top = options.max_num_seqs
        kept, changes = bounded(asked, top, f"above max_num_seqs ({top})")
        return Captured(kept, changes, None if kept else f"no size is within max_num_seqs ({top})")

    def top(self, options: GaudiOptions) -> int:
        return options.max_num_seqs

    def limits(self, options: GaudiOptions) -> SchedulerLimits:
        kv_tokens = options.num_gpu_blocks_override * options.block_size
        budget = options.max_num_batched_tokens
        return SchedulerLimits(options.max_num_seqs, budget, budget, kv_tokens)

    def settings(self, sizes: tuple[int, ...], options: GaudiOptions) -> deploy.Settings:
        blocks = options.num_gpu_blocks_override
        context = exponential(options.max_num_seqs, blocks, math.ceil(math.log2(blocks)) + 1)
        prompts = list(range(_QUERY_STEP, options.max_num_batched_tokens + 1, _QUERY_STEP))
        longest = max(1, options.max_model_len // options.block_size)
        text = (
            f"({list(sizes)}, 1, {list(context)})\n"
            f"# prompts: batch 1, query tokens, blocks of cached context\n(1, {prompts}, [0, {longest}])\n"
        )
        variables = {FROM_FILE.name: f"/etc/captune/{FILE_NAME}"}
        return deploy.Settings("vllm-gaudi", environment=variables, config_file=FILE_NAME, config_text=text)


def exponential(step: int, largest: int, count: int) -> tuple[int, ...]:
    """1, then `count` values from `step` to `largest`, exponentially spaced and rounded up to multiples of `step`."""
    if count <= 1 or largest <= step:
        return unique((1, largest))
    values = [step * (largest / step) ** (i / (count - 1)) for i in range(count)]
    rounded = [min(math.ceil(round(value, 9) / step) * step, largest) for value in values]
    return unique([1, *rounded, largest])
