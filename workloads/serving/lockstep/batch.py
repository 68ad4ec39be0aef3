"""What every policy does to the batch of a rank: take a chunk of a prompt, count the decode rows, let somebody go."""

from __future__ import annotations

from workloads.compiled import compiled
from workloads.serving.limits import UNLIMITED
from workloads.serving.lockstep.blocks import make_room, release
from workloads.serving.lockstep.state import (
    BATCHED,
    CALM,
    CHUNK,
    DONE,
    EVER,
    FULL,
    INPUT,
    LEAST_LEFT,
    MADE,
    NEW,
    OUTPUT,
    PREEMPTED,
    PREEMPTIONS,
    PREFILLED_TOKENS,
    PREFIX_WORK,
    RATIO,
    RECOMPUTED_TOKENS,
    ROWS,
    ROWS_KV,
    RUNNING,
    TARGET,
    USED,
    Rules,
    State,
)


@compiled
def begin_step(state: State, rank: int) -> None:
    """Forget the step before."""
    row = state.rank[rank]
    row[PREEMPTED], row[ROWS], row[ROWS_KV], row[BATCHED], row[NEW] = 0, 0, 0, 0, 0
    state.estimate[rank, PREFIX_WORK] = 0.0


@compiled
def take_chunk(state: State, rules: Rules, rank: int, request: int, chunk_tokens: int) -> None:
    """Compute the next `chunk_tokens` of a prompt in this step; its KV is held from now on."""
    row, own = state.request[request], state.rank[rank]
    state.estimate[rank, PREFIX_WORK] += float(chunk_tokens) * row[DONE]
    row[CHUNK] = chunk_tokens
    row[DONE] += chunk_tokens
    own[USED] += chunk_tokens
    own[NEW] += chunk_tokens
    state.rank[rank, PREFILLED_TOKENS] += chunk_tokens
    state.rank[rank, RECOMPUTED_TOKENS] += max(0, min(row[DONE], row[EVER]) - (row[DONE] - chunk_tokens))
    row[EVER] = max(row[EVER], row[DONE])
    state.batch[rank, own[BATCHED]] = request
    own[BATCHED] += 1


@compiled
def count_rows(state: State, rank: int) -> None:
    """Make decode rows of all running requests whose prompt is done before this step.

    Like `end_step` it looks at every running request for every event, so both address single cells: a view of a
    request's row would cost more than all that is done with it.
    """
    own, run, table = state.rank[rank], state.run[rank], state.request
    rows, rows_kv, least_left = 0, 0, UNLIMITED
    for i in range(own[RUNNING]):
        request = run[i]
        done = table[request, DONE]
        if table[request, CHUNK] == 0 and done >= table[request, TARGET]:
            rows += 1
            rows_kv += done + 1
            least_left = min(least_left, table[request, OUTPUT] - table[request, MADE])
    own[ROWS], own[ROWS_KV], own[LEAST_LEFT] = rows, rows_kv, least_left


@compiled
def let_go(state: State, rules: Rules, rank: int, request: int) -> None:
    """Take all KV from a request that was preempted; it will prefill its prompt and all it has generated."""
    release(state, rules, rank, request)
    row = state.request[request]
    row[TARGET] = row[INPUT] + row[MADE]
    state.rank[rank, PREEMPTED] += 1
    state.rank[rank, PREEMPTIONS] += 1


@compiled
def retract(state: State, rules: Rules, rank: int) -> int:
    """SGLang's retraction: drop requests until all others can write one step; at least one goes, one stays.

    Who has generated most is kept longest, of equals the shorter prompt, of those the earlier in the batch (SGLang
    0.5.23 `schedule_batch.py:3451-3570`, `retract_decode`). The batch stays in that order.

    Returns:
        first of the retracted in `run[rank]`, which reach up to the old end, in reverse order of going.
    """
    own, run = state.rank[rank], state.run[rank]
    held = int(own[RUNNING])
    for i in range(1, held):
        request, at = run[i], i
        while at > 0 and kept_before(state, request, run[at - 1]):
            run[at] = run[at - 1]
            at -= 1
        run[at] = request
    kept = held
    while kept > 1 and (kept == held or own[USED] + rules.look_tokens * kept > rules.kv_capacity):
        kept -= 1
        let_go(state, rules, rank, run[kept])
        make_room(state, rules, rank, rules.retract_steps * kept)
    own[RUNNING] = kept
    own[FULL] = 0
    made, asked = 0, 0
    for i in range(kept):
        made += state.request[run[i], MADE]
        asked += state.request[run[i], OUTPUT]
    state.estimate[rank, RATIO] = min(1.0, (made + rules.retract_steps * kept) / (asked + 1.0))
    own[CALM] = 0
    return kept


@compiled
def kept_before(state: State, request: int, other: int) -> bool:
    """Whether retraction keeps `request` rather than `other`."""
    mine, theirs = state.request[request], state.request[other]
    if mine[MADE] != theirs[MADE]:
        return bool(mine[MADE] > theirs[MADE])
    return bool(mine[INPUT] < theirs[INPUT])


@compiled
def decode_overflows(state: State, rules: Rules, rank: int) -> bool:
    """Whether the running requests cannot all write one decode step."""
    own = state.rank[rank]
    return bool(rules.preempt and own[USED] + rules.look_tokens * own[RUNNING] > rules.kv_capacity)
