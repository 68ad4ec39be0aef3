"""vLLM's boundary on a rank: decode rows, half-done prompts, waiting requests under one token budget.

As in `workloads.serving.vllm`, with preemption (vLLM 0.33.0 `v1/core/sched/scheduler.py:747-990, 1050, 1799`): whoever
finds no KV room for its tokens of this step has the running request that was admitted last preempted, itself in the
end. The preempted go to the front of the queue and compute prompt and output again; in a step that preempts nobody is
admitted. Admission wants room for the whole prompt (`scheduler_reserve_full_isl`, watermark 0), not for the output.
"""

from __future__ import annotations

from workloads.compiled import compiled
from workloads.serving.lockstep.batch import count_rows, let_go, take_chunk
from workloads.serving.lockstep.blocks import lookup, make_room, register, take
from workloads.serving.lockstep.queue import pop_front, push_front
from workloads.serving.lockstep.state import (
    DONE,
    INPUT,
    NEW,
    OUTPUT,
    PREEMPTED,
    RESERVED,
    ROWS,
    RUNNING,
    SCHEDULED,
    TARGET,
    USED,
    WAITING,
    Rules,
    State,
)


@compiled
def vllm_boundary(state: State, rules: Rules, rank: int, now_ms: float) -> None:
    """Decide the next step of one rank."""
    own = state.rank[rank]
    count_rows(state, rank)
    rows = own[ROWS]
    while rules.preempt and rows > 0 and own[USED] + rules.look_tokens * rows > rules.kv_capacity:
        rows -= preempt_last(state, rules, rank)
    i = 0
    while i < own[RUNNING] and rows < own[RUNNING]:
        request = state.run[rank, i]
        row = state.request[request]
        if row[DONE] < row[TARGET]:
            room = rules.token_budget - rows * rules.query_tokens - own[NEW]
            chunk = min(row[TARGET] - row[DONE], rules.chunk_limit, room)
            if chunk <= 0:
                break
            while rules.preempt and own[USED] + rules.look_tokens * rows + chunk > rules.kv_capacity:
                rows -= preempt_last(state, rules, rank)
                if own[RUNNING] == i:
                    break
            if own[RUNNING] == i:
                break
            take_chunk(state, rules, rank, request, chunk)
            make_room(state, rules, rank, rules.look_tokens * rows)
            register(state, rules, rank, request)
        i += 1
    if own[PREEMPTED] > 0:
        count_rows(state, rank)
    make_room(state, rules, rank, rules.look_tokens * own[ROWS])
    if own[PREEMPTED] == 0:
        admit(state, rules, rank, now_ms)


@compiled
def preempt_last(state: State, rules: Rules, rank: int) -> int:
    """Preempt the request admitted last; 1 where it was decoding."""
    own = state.rank[rank]
    own[RUNNING] -= 1
    request = state.run[rank, own[RUNNING]]
    row = state.request[request]
    was_decoding = int(row[DONE] >= row[TARGET])
    let_go(state, rules, rank, request)
    push_front(state, rank, WAITING, request)
    return was_decoding


@compiled
def admit(state: State, rules: Rules, rank: int, now_ms: float) -> None:
    """Admit waiting requests in order, until one does not fit."""
    own = state.rank[rank]
    rows_tokens, look_tokens = own[ROWS] * rules.query_tokens, own[ROWS] * rules.look_tokens
    while own[WAITING] >= 0 and rows_tokens + own[NEW] < rules.token_budget:
        request = own[WAITING]
        row = state.request[request]
        room = rules.token_budget - rows_tokens - own[NEW]
        hit, unread = lookup(state, rules, rank, request)
        left = row[TARGET] - hit * rules.block_tokens
        if rules.preempt:
            fits = own[USED] + look_tokens + left + unread * rules.block_tokens <= rules.kv_capacity
        else:
            fits = own[RESERVED] + row[INPUT] + row[OUTPUT] <= rules.kv_capacity
        if not fits or own[RUNNING] >= rules.max_running or (not rules.chunked and left > room):
            break
        pop_front(state, rank, WAITING)
        state.run[rank, own[RUNNING]] = request
        own[RUNNING] += 1
        own[RESERVED] += row[INPUT] + row[OUTPUT]
        take(state, rules, rank, request, hit)
        take_chunk(state, rules, rank, request, min(left, rules.chunk_limit, room) if rules.chunked else left)
        make_room(state, rules, rank, look_tokens)
        register(state, rules, rank, request)
        if state.times_ms[SCHEDULED, request] != state.times_ms[SCHEDULED, request]:
            state.times_ms[SCHEDULED, request] = now_ms
