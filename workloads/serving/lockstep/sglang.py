"""SGLang's boundary on a rank: a prefill batch if anybody can be admitted, else one decode step.

As in `workloads.serving.sglang`, with the KV rule of SGLang 0.5.23:

- Admission (`schedule_policy.py`, `PrefillAdder`): with free = KV tokens not held (cached blocks that nobody reads
  count as free), a request joins when new prompt tokens + min(remaining output, 4096) + 1 < free - what this batch
  took - ratio x sum of min(remaining output, 4096) of the running ones. Who does not fit closes admission
  (`batch_is_full`) until somebody leaves, or until a step that left a prompt half done.
- The ratio (`new_token_ratio_tracker.py`) starts at 0.7, falls to 0.098 over 600 decode steps, is reset when the engine
  is idle and set by every retraction to (tokens made + 20 a request) / (tokens asked + 1) of those that stay.
- Retraction (`schedule_batch.py`, `retract_decode`) when a decode step finds no room: see `batch.retract`. The
  retracted go to the end of the queue and compute prompt and output again.

max_new_tokens is taken to be the recorded output: a client that asks for more makes a real engine admit less.
"""

from __future__ import annotations

from workloads.compiled import compiled
from workloads.serving.lockstep.batch import count_rows, decode_overflows, retract, take_chunk
from workloads.serving.lockstep.blocks import lookup, make_room, take
from workloads.serving.lockstep.queue import pop_front, push_back
from workloads.serving.lockstep.state import (
    BATCHED,
    CALM,
    DONE,
    FULL,
    HALF_DONE,
    INPUT,
    MADE,
    OUTPUT,
    RATIO,
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
def sglang_boundary(state: State, rules: Rules, rank: int, now_ms: float) -> None:
    """Decide the next step of one rank."""
    own = state.rank[rank]
    prefill(state, rules, rank, now_ms)
    if own[BATCHED] > 0:
        make_room(state, rules, rank, 0)
        return
    held = own[RUNNING]
    if held > 0 and decode_overflows(state, rules, rank):
        kept = retract(state, rules, rank)
        for i in range(held - 1, kept - 1, -1):
            push_back(state, rank, WAITING, state.run[rank, i])
    count_rows(state, rank)
    make_room(state, rules, rank, rules.look_tokens * own[ROWS])


@compiled
def prefill(state: State, rules: Rules, rank: int, now_ms: float) -> None:
    """Fill the prefill batch: the half-done prompt, then waiting requests in order."""
    own = state.rank[rank]
    half = own[HALF_DONE]
    if half < 0 and (own[FULL] == 1 or own[WAITING] < 0):
        return
    room, taken_tokens = rules.chunk_limit, 0
    expected_tokens = expected_output(state, rules, rank)
    # The pool is charged after the batch is filled, as PrefillAdder does: chunks count in `taken_tokens` until then.
    used_tokens = own[USED]
    if half >= 0:
        own[FULL] = 0
        row = state.request[half]
        chunk = min(room, row[TARGET] - row[DONE])
        take_chunk(state, rules, rank, half, chunk)
        room -= chunk
        taken_tokens = chunk + 1
        if row[DONE] == row[TARGET]:
            own[HALF_DONE] = -1
            taken_tokens += min(row[OUTPUT], rules.clip_tokens)
    while own[WAITING] >= 0 and own[HALF_DONE] < 0 and room > 0:
        request = own[WAITING]
        row = state.request[request]
        hit, unread = lookup(state, rules, rank, request)
        left = row[TARGET] - hit * rules.block_tokens
        free_tokens = rules.kv_capacity - used_tokens - unread * rules.block_tokens - taken_tokens
        if rules.preempt:
            want_tokens = left + min(row[OUTPUT] - row[MADE], rules.clip_tokens) + 1
            fits = want_tokens < free_tokens - expected_tokens
        else:
            fits = own[RESERVED] + row[INPUT] + row[OUTPUT] <= rules.kv_capacity
        if not fits or own[RUNNING] + own[BATCHED] >= rules.max_running:
            own[FULL] = int(own[RUNNING] + own[BATCHED] > 0)
            break
        if left > room and not rules.chunked and own[BATCHED] > 0:
            break
        pop_front(state, rank, WAITING)
        own[RESERVED] += row[INPUT] + row[OUTPUT]
        used_tokens += unread * rules.block_tokens
        take(state, rules, rank, request, hit)
        chunk = min(left, room) if rules.chunked else left
        take_chunk(state, rules, rank, request, chunk)
        room -= chunk
        taken_tokens += chunk + 1
        if chunk < left:
            own[HALF_DONE] = request
        else:
            taken_tokens += min(row[OUTPUT], rules.clip_tokens)
        if state.times_ms[SCHEDULED, request] != state.times_ms[SCHEDULED, request]:
            state.times_ms[SCHEDULED, request] = now_ms
        if rules.preempt and rules.kv_capacity - used_tokens - taken_tokens - expected_tokens <= 0:
            own[FULL] = 1
            break


@compiled
def expected_output(state: State, rules: Rules, rank: int) -> float:
    """Tokens that the running requests are expected to make yet, by the ratio as it has decayed by now."""
    own = state.rank[rank]
    if not rules.preempt:
        return 0.0
    left, table = 0, state.request
    for i in range(own[RUNNING]):
        request = state.run[rank, i]
        left += min(table[request, OUTPUT] - table[request, MADE], rules.clip_tokens)
    ratio = state.estimate[rank, RATIO]
    if own[CALM] > 0:
        ratio = max(ratio - own[CALM] * rules.ratio_decay, rules.least_ratio)
    return float(left * ratio)
