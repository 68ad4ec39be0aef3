"""From limits, step times and features to a run of the lockstep kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.arrays import F64, I64, Bool
from workloads.errors import BadUsage
from workloads.serving.features import Features
from workloads.serving.limits import UNLIMITED, PolicyName, SchedulerLimits
from workloads.serving.lockstep.kernel import lockstep_kernel
from workloads.serving.lockstep.policies import DECODE, SGLANG, VLLM
from workloads.serving.lockstep.state import Costs, Rules, new_state
from workloads.serving.step_time import StepTime
from workloads.traces.prefix_blocks import PrefixBlocks

MOST_STATE_GIB = 4
"""A request over HTTP may ask for any number of ranks; the simulation must not take the machine with it."""

POLICIES: dict[PolicyName, int] = {"decode": DECODE, "sglang": SGLANG, "vllm": VLLM}


@dataclass(frozen=True, slots=True)
class LockstepRun:
    """What one engine did.

    Attributes:
        counts, times: step rows as in `workloads.serving.rows`.
        times_ms: float64 [3, N]: first scheduled, first token, last token.
        totals: int64, the columns of `rank` that count over the whole run, summed over ranks.
    """

    counts: I64
    times: F64
    times_ms: F64
    totals: I64


def run_lockstep(
    identity: I64,
    arrival_ms: F64,
    input_tokens: I64,
    output_tokens: I64,
    policy: PolicyName,
    limits: SchedulerLimits,
    step_time: StepTime,
    features: Features,
    blocks: PrefixBlocks | None,
) -> LockstepRun:
    """Run requests [N] in order of arrival, each of which fits alone (`fits_alone`), through one engine.

    Args:
        identity: int64 [N], index in the trace.
        blocks: of these requests; used with `features.prefix_cache`.

    Raises:
        BadUsage: the state of all ranks would not fit into memory.
    """
    cached = blocks if features.prefix_cache else None
    rules = _rules(policy, limits, features, 1 if cached is None else cached.block_tokens)
    if cached is None:
        ids, starts, distinct = np.zeros(0, np.int64), np.zeros(len(identity) + 1, np.int64), 0
    else:
        cached = _full_blocks(cached, input_tokens)
        (ids, distinct), starts = cached.numbered(), cached.starts.copy()
    _check_size(features.attention_ranks, min(rules.max_running, len(identity)), distinct)
    acceptance = 0.0 if features.speculation is None else features.speculation.acceptance
    state = new_state(
        identity, input_tokens, output_tokens, rules, features.attention_ranks, (ids, starts, distinct), acceptance
    )
    costs = Costs(
        step_time.decode_ms.astype(np.float64),
        float(step_time.attention_ms_per_token),
        float(step_time.row_ms),
        step_time.prefill_tokens.astype(np.float64),
        step_time.prefill_ms.astype(np.float64),
        float(step_time.prefix_ms_per_token2),
    )
    counts, times = lockstep_kernel(arrival_ms, rules, costs, state)
    return LockstepRun(counts, times, state.times_ms, state.rank.sum(axis=0))


def fits_alone(
    input_tokens: I64, output_tokens: I64, policy: PolicyName, limits: SchedulerLimits, features: Features
) -> Bool:
    """Which requests the KV cache can hold to their end, by the rule that admits them: bool [N]."""
    tokens = input_tokens + output_tokens
    if features.speculation is not None:
        tokens = tokens + _look_tokens(policy, features)
    if features.preempt and policy == "sglang":
        tokens = tokens + 2  # a request of x tokens is admitted while x + 1 is less than what is free
    if features.preempt and policy == "decode":
        tokens = tokens + features.sglang_kv_rule.reserved_decode_tokens
    fits: Bool = tokens <= (limits.kv_tokens or UNLIMITED)
    return fits


def _look_tokens(policy: PolicyName, features: Features) -> int:
    """KV tokens that a decode row may write in one step.

    vLLM allocates the newest token and its drafts; SGLang twice that, because the step after may start before the
    rejections are known (0.5.23 `mem_cache/allocation_sizing.py:64`).
    """
    if features.speculation is None:
        return 1
    return features.speculation.query_tokens * (1 if policy == "vllm" else 2)


def _rules(policy: PolicyName, limits: SchedulerLimits, features: Features, block_tokens: int) -> Rules:
    rule, speculation = features.sglang_kv_rule, features.speculation
    query_tokens = 1 if speculation is None else speculation.query_tokens
    least_ratio = rule.initial_ratio * rule.least_ratio_factor
    max_running = limits.max_running_requests
    if policy == "vllm":
        max_running = min(max_running, limits.token_budget // query_tokens)
    return Rules(
        policy=POLICIES[policy],
        max_running=max_running,
        kv_capacity=limits.kv_tokens or UNLIMITED,
        token_budget=limits.token_budget,
        chunk_limit=min(limits.chunked_prefill_tokens or limits.token_budget, limits.token_budget),
        chunked=limits.chunked_prefill_tokens is not None,
        preempt=features.preempt,
        query_tokens=query_tokens,
        look_tokens=_look_tokens(policy, features),
        block_tokens=block_tokens,
        seed=0 if speculation is None else speculation.seed,
        first_ratio=rule.initial_ratio,
        least_ratio=least_ratio,
        ratio_decay=(rule.initial_ratio - least_ratio) / rule.decay_steps,
        retract_steps=rule.retract_steps,
        clip_tokens=rule.clip_tokens,
        reserved_decode_tokens=rule.reserved_decode_tokens,
    )


def _check_size(ranks: int, slots: int, distinct_blocks: int) -> None:
    gib = ranks * (2 * slots + 3 * distinct_blocks) * 8 / 2**30
    if gib > MOST_STATE_GIB:
        raise BadUsage(
            f"{ranks} ranks of {slots} requests and {distinct_blocks} prompt blocks would take {gib:.0f} GiB to "
            f"simulate, more than {MOST_STATE_GIB}; lower it, max_running, or leave out the prefix cache",
            field="dp_attention",
        )


def _full_blocks(blocks: PrefixBlocks, input_tokens: I64) -> PrefixBlocks:
    """Without the last block of a prompt where it is not full: engines cache full blocks only."""
    counts = np.minimum(np.diff(blocks.starts), input_tokens // blocks.block_tokens)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
    return PrefixBlocks(blocks.block_tokens, blocks.ids[np.repeat(blocks.starts[:-1], counts) + within], starts)
