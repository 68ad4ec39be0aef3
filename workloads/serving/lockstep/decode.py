"""A decode node's boundary on a rank: admit requests that arrive prefilled, then one decode step.

As in `workloads.serving.decode`, with the KV rule of a SGLang 0.5.23 decode node (`disaggregation/decode.py`): a
request is admitted when its KV + 512 tokens fit beside what is held + 512 tokens for every running request
(`num_reserved_decode_tokens`). Retraction is that of `batch.retract`; the KV of the retracted waits in host memory, so
they come back without computing anything, in the order in which they went and before anybody new is admitted.

Left out: the room that a node keeps so that one request alone could end (a request that would need more is rejected
here), and the time that KV takes to and from host memory.
"""

from __future__ import annotations

from workloads.compiled import compiled
from workloads.serving.lockstep.batch import count_rows, decode_overflows, retract
from workloads.serving.lockstep.queue import pop_front, push_back
from workloads.serving.lockstep.state import (
    DONE,
    INPUT,
    MADE,
    OUTPUT,
    RESERVED,
    RETRACTED,
    RUNNING,
    SCHEDULED,
    TARGET,
    USED,
    WAITING,
    Rules,
    State,
)


@compiled
def decode_boundary(state: State, rules: Rules, rank: int, now_ms: float) -> None:
    """Decide the next step of one rank."""
    own = state.rank[rank]
    while own[RETRACTED] >= 0 and fits(state, rules, rank, own[RETRACTED]):
        enter(state, rank, RETRACTED)
    while own[RETRACTED] < 0 and own[WAITING] >= 0 and fits(state, rules, rank, own[WAITING]):
        request = own[WAITING]
        state.request[request, MADE] = 1
        own[RESERVED] += state.request[request, INPUT] + state.request[request, OUTPUT]
        state.times_ms[SCHEDULED, request] = now_ms
        enter(state, rank, WAITING)
    held = own[RUNNING]
    if held > 0 and decode_overflows(state, rules, rank):
        kept = retract(state, rules, rank)
        for i in range(held - 1, kept - 1, -1):
            push_back(state, rank, RETRACTED, state.run[rank, i])
    count_rows(state, rank)


@compiled
def fits(state: State, rules: Rules, rank: int, request: int) -> bool:
    """Whether a slot and KV room are free for a request."""
    own, row = state.rank[rank], state.request[request]
    if own[RUNNING] >= rules.max_running:
        return False
    if not rules.preempt:
        return bool(own[RESERVED] + row[INPUT] + row[OUTPUT] <= rules.kv_capacity)
    tokens = row[INPUT] + max(row[MADE], 1) - 1
    reserved_tokens = rules.reserved_decode_tokens * (own[RUNNING] + 1)
    return bool(own[USED] + tokens + reserved_tokens <= rules.kv_capacity)


@compiled
def enter(state: State, rank: int, queue: int) -> None:
    """The first of a queue runs; its KV is there."""
    own = state.rank[rank]
    request = own[queue]
    pop_front(state, rank, queue)
    row = state.request[request]
    row[DONE] = row[TARGET] = row[INPUT] + row[MADE] - 1
    own[USED] += row[DONE]
    state.run[rank, own[RUNNING]] = request
    own[RUNNING] += 1
