"""The end of a step on a rank: tokens come out, the finished leave."""

from __future__ import annotations

from workloads.compiled import compiled
from workloads.serving.lockstep.blocks import make_room, register, release
from workloads.serving.lockstep.drafts import accepted_drafts
from workloads.serving.lockstep.policies import SGLANG
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
    kept = 0
    for i in range(own[RUNNING]):
        request = state.run[rank, i]
        row = state.request[request]
        stays = True
        if row[CHUNK] > 0:
            stays = end_chunk(state, rules, rank, request, now_ms)
        elif own[ROWS] > 0 and row[DONE] >= row[TARGET]:
            made = min(steps * (1 + drawn(state, rules, request)), row[OUTPUT] - row[MADE])
            row[DONE] += made
            own[USED] += made
            state.rank[rank, ROW_TOKENS] += made
            stays = make(state, rules, rank, request, made, first_end_ms, now_ms)
        if stays:
            state.run[rank, kept] = request
            kept += 1
    own[RUNNING] = kept
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
    """Drafts that this step accepts for a request; 0 without speculation."""
    if rules.query_tokens == 1:
        return 0
    row = state.request[request]
    row[DRAWS] += 1
    return accepted_drafts(state.accept, rules.seed, row[IDENTITY], row[DRAWS])


@compiled
def end_chunk(state: State, rules: Rules, rank: int, request: int, now_ms: float) -> bool:
    """A chunk was computed; the last one of a prompt makes a token. False where that was the request's last."""
    row = state.request[request]
    row[CHUNK] = 0
    if row[DONE] < row[TARGET]:
        return True
    return make(state, rules, rank, request, 1, now_ms, now_ms)


@compiled
def make(state: State, rules: Rules, rank: int, request: int, tokens: int, first_end_ms: float, now_ms: float) -> bool:
    """A request makes tokens; False where it is finished and gone."""
    row, own = state.request[request], state.rank[rank]
    row[MADE] += tokens
    state.rank[rank, MADE_TOKENS] += tokens
    if state.times_ms[FIRST, request] != state.times_ms[FIRST, request]:
        state.times_ms[FIRST, request] = first_end_ms
    if row[MADE] < row[OUTPUT]:
        return True
    state.times_ms[FINISH, request] = now_ms
    release(state, rules, rank, request)
    own[RESERVED] -= row[INPUT] + row[OUTPUT]
    own[LIVE] -= 1
    own[FULL] = 0
    return False
