"""Continuous batching over attention ranks in lockstep, with everything in `workloads.serving.features`.

All ranks of an engine take every step together, each with its own scheduler, requests and KV cache (SGLang 0.5.23
`scheduler_components/dp_attn.py`, vLLM 0.33.0 `v1/worker/gpu/dp_utils.py`: sizes are padded to the largest rank, and
one rank with a prompt takes the others off the decode graphs).

- Only decode rows anywhere: family 0, size = the largest rank's n (SGLang) or n x q (vLLM), and time = decode_ms[n]
  + a x most KV tokens + h x most rows of one rank.
- A prompt on any rank: family 1, size = most tokens of one rank, and time = the prefill curve at that size + the
  largest prefix term + a x most KV tokens + h x most rows.

Decode steps between two events are taken in one stretch, as in `workloads.serving.stretch`; with speculation every step
draws, so they are taken one by one and equal neighbours share a row.
"""

from __future__ import annotations

import numpy as np

from workloads.arrays import F64, I64
from workloads.compiled import compiled
from workloads.serving.lockstep.batch import begin_step
from workloads.serving.lockstep.dealing import deal
from workloads.serving.lockstep.decode import decode_boundary
from workloads.serving.lockstep.ending import end_step
from workloads.serving.lockstep.policies import DECODE, SGLANG, VLLM
from workloads.serving.lockstep.sglang import sglang_boundary
from workloads.serving.lockstep.state import (
    CALM,
    FULL,
    LARGEST_ROW_STEPS,
    LEAST_LEFT,
    LIVE,
    NEW,
    PREEMPTED,
    PREFIX_WORK,
    RATIO,
    RETRACTED,
    ROW_STEPS,
    ROWS,
    ROWS_KV,
    RUNNING,
    USED,
    WAITING,
    Costs,
    Rules,
    State,
)
from workloads.serving.lockstep.vllm import vllm_boundary
from workloads.serving.prefill_curve import curve_ms
from workloads.serving.rows import extend_stretch, new_rows, put_prefill, put_stretch, with_room
from workloads.serving.stretch import steps_until, stretch_ms


@compiled
def lockstep_kernel(arrival_ms: F64, rules: Rules, costs: Costs, state: State) -> tuple[I64, F64]:
    """Run all requests of `state`, which arrive at `arrival_ms` [N] and each of which fits alone.

    Returns:
        counts [M, 4] and times [M, 3] as in `rows`; all else is in `state`.
    """
    requests, ranks = len(arrival_ms), len(state.rank)
    counts, times = new_rows(3 * requests + 1)
    rows, head, now_ms, idle = 0, 0, 0.0, True
    while head < requests or live(state) > 0:
        idle = live(state) == 0
        if idle:
            now_ms = max(now_ms, arrival_ms[head])
            head = deal(state, rules, arrival_ms, head, now_ms)
        for rank in range(ranks):
            begin_step(state, rank)
            if idle:
                state.estimate[rank, RATIO], state.rank[rank, CALM] = rules.first_ratio, 0
            if rules.policy == VLLM:
                vllm_boundary(state, rules, rank, now_ms)
            elif rules.policy == SGLANG:
                sglang_boundary(state, rules, rank, now_ms)
            else:
                decode_boundary(state, rules, rank, now_ms)

        size, largest, most_kv, leader, prompts, prefix_work = sizes(state, rules)
        if size == 0:
            raise RuntimeError("no rank of the simulated engine can go on")
        counts, times = with_room(counts, times, rows)
        steps, base_ms = 1, 0.0
        if prompts:
            span_ms = curve_ms(size, costs.curve_tokens, costs.curve_times_ms)
            span_ms += costs.prefix_ms * prefix_work + costs.attention_ms * most_kv + costs.row_ms * largest
            put_prefill(counts, times, rows, size, largest, now_ms, span_ms, most_kv)
            rows += 1
        else:
            base_ms = costs.decode_ms[largest] + costs.row_ms * largest + costs.attention_ms * most_kv
            growth = state.rank[leader, ROWS]
            growth_ms = costs.attention_ms * growth
            shown_size = largest * rules.query_tokens if rules.policy == VLLM else largest
            if rules.query_tokens > 1:
                span_ms = base_ms
            else:
                steps = calm_steps(state, rules, leader)
                if steps > 1 and head < requests and open_for_arrivals(state, rules):
                    steps = steps_until(arrival_ms[head], now_ms, base_ms, growth_ms, steps)
                span_ms = stretch_ms(steps, base_ms, growth_ms)
            may_join = rules.query_tokens > 1 and not idle
            if not (may_join and extend_stretch(counts, times, rows, shown_size, span_ms, most_kv)):
                mean_kv = most_kv + 0.5 * growth * (steps - 1.0)
                put_stretch(counts, times, rows, shown_size, largest, steps, now_ms, span_ms, mean_kv)
                rows += 1
        first_end_ms = now_ms + (span_ms if steps == 1 else base_ms)
        now_ms += span_ms
        head = deal(state, rules, arrival_ms, head, now_ms)
        for rank in range(ranks):
            state.rank[rank, ROW_STEPS] += state.rank[rank, ROWS] * steps
            state.rank[rank, LARGEST_ROW_STEPS] += largest * steps
            end_step(state, rules, rank, steps, first_end_ms, now_ms)
    return counts[:rows], times[:rows]


@compiled
def live(state: State) -> int:
    """Requests dealt and not finished."""
    count = 0
    for rank in range(len(state.rank)):
        count += state.rank[rank, LIVE]
    return count


@compiled
def sizes(state: State, rules: Rules) -> tuple[int, int, int, int, bool, float]:
    """This step over ranks: most tokens, most decode rows, most KV tokens, the rank with these, whether there are
    prompts, and the most prefix work."""
    tokens, largest, most_kv, leader, prompts, prefix_work = 0, 0, 0, 0, False, 0.0
    for rank in range(len(state.rank)):
        own = state.rank[rank]
        tokens = max(tokens, own[NEW] + own[ROWS] * rules.query_tokens)
        largest = max(largest, own[ROWS])
        prompts = prompts or own[NEW] > 0
        prefix_work = max(prefix_work, state.estimate[rank, PREFIX_WORK])
        if own[ROWS_KV] > most_kv:
            most_kv, leader = own[ROWS_KV], rank
    return tokens, largest, most_kv, leader, prompts, prefix_work


@compiled
def calm_steps(state: State, rules: Rules, leader: int) -> int:
    """Decode steps until a request ends, KV runs out, another rank holds the most KV, or admission is tried again."""
    steps, lead = np.iinfo(np.int64).max, state.rank[leader]
    for rank in range(len(state.rank)):
        own = state.rank[rank]
        if own[PREEMPTED] > 0:
            return 1
        if own[ROWS] == 0:
            continue
        steps = min(steps, own[LEAST_LEFT])
        if rules.preempt:
            steps = min(steps, (rules.kv_capacity - own[USED]) // own[ROWS])
        if own[ROWS] > lead[ROWS]:
            steps = min(steps, (lead[ROWS_KV] - own[ROWS_KV]) // (own[ROWS] - lead[ROWS]) + 1)
    return steps


@compiled
def open_for_arrivals(state: State, rules: Rules) -> bool:
    """Whether some rank might admit a request that arrives now."""
    for rank in range(len(state.rank)):
        own = state.rank[rank]
        if own[WAITING] >= 0 or own[RUNNING] >= rules.max_running:
            continue
        if rules.policy == DECODE and own[RETRACTED] >= 0:
            continue
        if rules.policy == SGLANG and own[FULL] == 1:
            continue
        if rules.policy == VLLM and own[ROWS] * rules.query_tokens >= rules.token_budget:
            continue
        return True
    return False
