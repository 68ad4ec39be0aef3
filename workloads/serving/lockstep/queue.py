"""First-in-first-out queues of requests on a rank, as links between requests; requests come back at either end."""

from __future__ import annotations

from workloads.compiled import compiled
from workloads.serving.lockstep.state import NEXT, State


@compiled
def push_back(state: State, rank: int, first: int, request: int) -> None:
    """Add `request` at the end of the queue whose ends are the rank's columns `first` and `first + 1`."""
    state.request[request, NEXT] = -1
    last = state.rank[rank, first + 1]
    if last < 0:
        state.rank[rank, first] = request
    else:
        state.request[last, NEXT] = request
    state.rank[rank, first + 1] = request


@compiled
def push_front(state: State, rank: int, first: int, request: int) -> None:
    """Add `request` before all others."""
    state.request[request, NEXT] = state.rank[rank, first]
    if state.rank[rank, first] < 0:
        state.rank[rank, first + 1] = request
    state.rank[rank, first] = request


@compiled
def pop_front(state: State, rank: int, first: int) -> None:
    """Drop the first request of a queue that has one."""
    following = state.request[state.rank[rank, first], NEXT]
    state.rank[rank, first] = following
    if following < 0:
        state.rank[rank, first + 1] = -1
