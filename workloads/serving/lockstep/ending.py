"""The end of a step on a rank: tokens come out, the finished leave."""

from __future__ import annotations

from workloads.compiled import compiled
from workloads.serving.lockstep.blocks import make_room, register, release
from workloads.serving.lockstep.drafts import accepted_drafts
from workloads.serving.lockstep.policies import DECODE, SGLANG
from workloads.serving.lockstep.state import (
    BATCHED,
    CALM,
    CHUNK,
    DONE,
    DRAWS,
    FINISH,
    FIRST,
    FULL,
    IDENTITY,
    INPUT,
    LIVE,
    MADE,
    MADE_TOKENS,
    OUTPUT,
    PREEMPTED,
    RESERVED,
    ROW_TOKENS,
    ROWS,
    RUNNING,
    TARGET,
    USED,
    Rules,
    State,
)


@compiled
def end_step(state: State, rules: Rules, rank: int, steps: int, first_end_ms: float, now_ms: float) -> None:
    """Book `steps` equal decode steps, of which the first ended at `first_end_ms`, or one step with prompts."""
    own = state.rank[rank]
    if steps > 1:
        make_room(state, rules, rank, own[ROWS] * steps)  # the first step's room was made at the boundary
    run, table = state.run[rank], state.request
    kept, row_tokens, rows = 0, 0, own[ROWS] > 0
    for i in range(own[RUNNING]):
        request = run[i]
        stays = True
        if table[request, CHUNK] > 0:
            stays = end_chunk(state, rules, rank, request, now_ms)
        elif rows and table[request, DONE] >= table[request, TARGET]:
            made = table[request, MADE]
            tokens = steps
            if rules.query_tokens > 1:
                tokens = min(1 + drawn(state, rules, request), table[request, OUTPUT] - made)
            table[request, MADE] = made + tokens
            table[request, DONE] += tokens
            row_tokens += tokens
            if made == 1 and rules.policy == DECODE:
                note_first(state, request, first_end_ms)
            if made + tokens == table[request, OUTPUT]:
                finish(state, rules, rank, request, now_ms)
                stays = False
        if stays:
            run[kept] = request
            kept += 1
    own[RUNNING] = kept
    own[USED] += row_tokens
    own[ROW_TOKENS] += row_tokens
    own[MADE_TOKENS] += row_tokens
    if own[ROWS] > 0 and own[PREEMPTED] == 0:
        own[CALM] += steps
    if rules.policy == SGLANG:
        for i in range(own[BATCHED]):
            request = state.batch[rank, i]
            row = state.request[request]
            register(state, rules, rank, request)
            if end_chunk(state, rules, rank, request, now_ms) and row[DONE] == row[TARGET]:
                state.run[rank, own[RUNNING]] = request
                own[RUNNING] += 1


@compiled
def drawn(state: State, rules: Rules, request: int) -> int:
    """Drafts that this step accepts for a request."""
    draw = state.request[request, DRAWS] + 1
    state.request[request, DRAWS] = draw
    return accepted_drafts(state.accept, rules.seed, state.request[request, IDENTITY], draw)


@compiled
def end_chunk(state: State, rules: Rules, rank: int, request: int, now_ms: float) -> bool:
    """A chunk was computed; the last one of a prompt makes a token. False where that was the request's last."""
    row = state.request[request]
    row[CHUNK] = 0
    if row[DONE] < row[TARGET]:
        return True
    row[MADE] += 1
    state.rank[rank, MADE_TOKENS] += 1
    note_first(state, request, now_ms)
    if row[MADE] < row[OUTPUT]:
        return True
    finish(state, rules, rank, request, now_ms)
    return False


@compiled
def note_first(state: State, request: int, now_ms: float) -> None:
    """Note when a request made its first token, unless it made one before it was preempted."""
    if state.times_ms[FIRST, request] != state.times_ms[FIRST, request]:
        state.times_ms[FIRST, request] = now_ms


@compiled
def finish(state: State, rules: Rules, rank: int, request: int, now_ms: float) -> None:
    """A request has made its last token and leaves."""
    row, own = state.request[request], state.rank[rank]
    state.times_ms[FINISH, request] = now_ms
    release(state, rules, rank, request)
    own[RESERVED] -= row[INPUT] + row[OUTPUT]
    own[LIVE] -= 1
    own[FULL] = 0
