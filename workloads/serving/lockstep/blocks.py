"""KV tokens of a rank: what its requests hold, and the prefix cache in what they leave free.

A full prompt block is cached under its id. While requests read it, it counts once in USED; when the last reader lets go
it stays, as the newest of the blocks that nobody reads, a request's deepest block as the oldest of its own; when room
is wanted the oldest go first (vLLM 0.33.0 `block_pool.py`: free blocks keep their hashes and are taken in the order in
which they were freed, the end of a request first; SGLang 0.5.23 `radix_cache.py`: least recently used leaves first).
"""

from __future__ import annotations

from workloads.compiled import compiled
from workloads.serving.lockstep.state import (
    BLOCKS,
    CACHED,
    DONE,
    EVER,
    FIRST_BLOCK,
    HIT_TOKENS,
    INPUT,
    LOOKED_UP,
    NEWER,
    NEWEST,
    OLDER,
    OLDEST,
    PROMPT_TOKENS,
    READERS,
    SHARED,
    TARGET,
    USED,
    Rules,
    State,
)


@compiled
def lookup(state: State, rules: Rules, rank: int, request: int) -> tuple[int, int]:
    """Blocks of its prompt in the cache, from the first without a gap, and how many of them nobody reads.

    One token at least is left to compute, because it makes the next one (vLLM `get_computed_blocks`).
    """
    row = state.request[request]
    start = row[FIRST_BLOCK]
    most = min(row[BLOCKS], (row[TARGET] - 1) // rules.block_tokens)
    unread = 0
    for i in range(most):
        readers = state.cache[READERS, rank, state.blocks[start + i]]
        if readers < 0:
            return i, unread
        if readers == 0:
            unread += 1
    return most, unread


@compiled
def take(state: State, rules: Rules, rank: int, request: int, hit: int) -> None:
    """Let an admitted request read its first `hit` blocks, which were looked up just now."""
    row = state.request[request]
    start = row[FIRST_BLOCK]
    for i in range(hit):
        read(state, rules, rank, state.blocks[start + i])
    row[SHARED] = hit
    row[DONE] = hit * rules.block_tokens
    row[EVER] = max(row[EVER], row[DONE])
    if row[LOOKED_UP] == 0:
        row[LOOKED_UP] = 1
        state.rank[rank, PROMPT_TOKENS] += row[INPUT]
        state.rank[rank, HIT_TOKENS] += row[DONE]


@compiled
def read(state: State, rules: Rules, rank: int, block: int) -> None:
    """One reader more of a cached block."""
    if state.cache[READERS, rank, block] == 0:
        unlink(state, rank, block)
        state.rank[rank, USED] += rules.block_tokens
    state.cache[READERS, rank, block] += 1


@compiled
def unlink(state: State, rank: int, block: int) -> None:
    """Take a block off the list of those that nobody reads."""
    older, newer = state.cache[OLDER, rank, block], state.cache[NEWER, rank, block]
    if older < 0:
        state.rank[rank, OLDEST] = newer
    else:
        state.cache[NEWER, rank, older] = newer
    if newer < 0:
        state.rank[rank, NEWEST] = older
    else:
        state.cache[OLDER, rank, newer] = older
    state.rank[rank, CACHED] -= 1


@compiled
def register(state: State, rules: Rules, rank: int, request: int) -> None:
    """Cache the prompt blocks that the request has filled; one that somebody else cached meanwhile is shared."""
    row = state.request[request]
    start = row[FIRST_BLOCK]
    filled = min(row[BLOCKS], row[DONE] // rules.block_tokens)
    for i in range(row[SHARED], filled):
        block = state.blocks[start + i]
        if state.cache[READERS, rank, block] < 0:
            state.cache[READERS, rank, block] = 1
        else:
            read(state, rules, rank, block)
            state.rank[rank, USED] -= rules.block_tokens
    row[SHARED] = max(row[SHARED], filled)


@compiled
def release(state: State, rules: Rules, rank: int, request: int) -> None:
    """Give back all KV of a request that finished or was preempted; its cached blocks stay for others."""
    row = state.request[request]
    state.rank[rank, USED] -= row[DONE] - row[SHARED] * rules.block_tokens
    start = row[FIRST_BLOCK]
    for i in range(row[SHARED] - 1, -1, -1):
        block = state.blocks[start + i]
        state.cache[READERS, rank, block] -= 1
        if state.cache[READERS, rank, block] == 0:
            state.rank[rank, USED] -= rules.block_tokens
            newest = state.rank[rank, NEWEST]
            state.cache[OLDER, rank, block], state.cache[NEWER, rank, block] = newest, -1
            if newest < 0:
                state.rank[rank, OLDEST] = block
            else:
                state.cache[NEWER, rank, newest] = block
            state.rank[rank, NEWEST] = block
            state.rank[rank, CACHED] += 1
    row[SHARED] = 0
    row[DONE] = 0


@compiled
def make_room(state: State, rules: Rules, rank: int, demand_tokens: int) -> None:
    """Evict cached blocks, oldest first, until `demand_tokens` fit beside what is held."""
    while (
        state.rank[rank, CACHED] > 0
        and state.rank[rank, USED] + demand_tokens + state.rank[rank, CACHED] * rules.block_tokens > rules.kv_capacity
    ):
        block = state.rank[rank, OLDEST]
        unlink(state, rank, block)
        state.cache[READERS, rank, block] = -1
