"""State of one engine's attention ranks and their requests: the arrays that the lockstep kernel works on.

Rows of `rank` and `request` are addressed by the column numbers below; a request is its index, -1 is nobody.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workloads.arrays import F64, I64

# Columns of `rank`. A queue is a pair of columns, first and last; links are in `request`.
RUNNING = 0  # requests in `run`
USED = 1  # KV tokens that its requests hold, shared blocks once
RESERVED = 2  # tokens promised to admitted requests, where admission reserves the whole output
LIVE = 3  # requests dealt to it and not finished
WAITING, WAITING_LAST = 4, 5
RETRACTED, RETRACTED_LAST = 6, 7  # decode node: whose KV waits in host memory
FULL = 8  # SGLang's batch_is_full: admission is closed until somebody leaves
HALF_DONE = 9  # SGLang's one half-done prompt
CALM = 10  # decode steps since SGLang's ratio was set
PREEMPTED = 11  # requests preempted at this boundary
ROWS = 12  # decode rows of this step
ROWS_KV = 13  # KV tokens that they attend to
LEAST_LEFT = 14  # fewest tokens that one of them has to make yet
BATCHED = 15  # requests in `batch`: those with a chunk in this step
NEW = 16  # prefill tokens of this step
OLDEST, NEWEST = 17, 18  # ends of the list of cached blocks that nobody reads
CACHED = 19  # blocks in that list
# Of `rank`, counted over the whole run:
PREEMPTIONS = 20
PREFILLED_TOKENS = 21
RECOMPUTED_TOKENS = 22  # of these, tokens whose KV it had held before
PROMPT_TOKENS = 23  # prompts admitted for the first time
HIT_TOKENS = 24  # of these, tokens found in the prefix cache
MADE_TOKENS = 25  # generated, the first token of every request included
ROW_STEPS = 26  # decode rows over steps
ROW_TOKENS = 27  # tokens that they made
LARGEST_ROW_STEPS = 28  # decode rows over steps if every rank had as many as the largest
RANK_COLUMNS = 29

# Columns of `request`.
INPUT = 0
OUTPUT = 1
TARGET = 2  # tokens to prefill: the prompt, after a preemption also what was generated
DONE = 3  # tokens whose KV it holds
MADE = 4  # tokens generated
CHUNK = 5  # prefill tokens in this step
SHARED = 6  # prompt blocks, from the first, that it reads in the cache
EVER = 7  # most tokens whose KV it ever held
DRAWS = 8  # verification steps so far
NEXT = 9  # behind it in a queue
LOOKED_UP = 10  # 1 after its first admission
IDENTITY = 11  # index in the trace, which seeds its draws
FIRST_BLOCK, BLOCKS = 12, 13  # its prompt blocks in `blocks`
REQUEST_COLUMNS = 14

# Columns of `estimate`.
RATIO = 0  # SGLang's new_token_ratio when it was last set
PREFIX_WORK = 1  # sum of new x prefix tokens of this step

# Layers of `cache` and rows of `times_ms`.
READERS, OLDER, NEWER = 0, 1, 2
SCHEDULED, FIRST, FINISH = 0, 1, 2


class Rules(NamedTuple):
    """Scalars of one run; see `workloads.serving.limits` and `workloads.serving.features`."""

    policy: int
    max_running: int
    kv_capacity: int
    token_budget: int
    chunk_limit: int
    chunked: bool
    preempt: bool
    query_tokens: int
    look_tokens: int  # KV tokens that a decode row may write in one step
    block_tokens: int
    seed: int
    first_ratio: float
    least_ratio: float
    ratio_decay: float
    retract_steps: int
    clip_tokens: int
    reserved_decode_tokens: int


class Costs(NamedTuple):
    """The step model, as in `workloads.serving.step_time`."""

    decode_ms: F64
    attention_ms: float
    row_ms: float
    curve_tokens: F64
    curve_times_ms: F64
    prefix_ms: float


class State(NamedTuple):
    """All that changes while it runs.

    Attributes:
        rank: int64 [R, RANK_COLUMNS].
        estimate: float64 [R, 2].
        request: int64 [N, REQUEST_COLUMNS].
        run: int64 [R, slots], running requests in order of admission.
        batch: int64 [R, slots], requests with a chunk in this step, in order.
        blocks: int64 [T], prompt block ids 0..D-1, request after request.
        cache: int64 [3, R, D] per block: requests that read it, -1 where it is not cached; and the links of the list
            of cached blocks that nobody reads.
        accept: float64 [q - 1], chance that at least 1, 2, ... drafts are accepted.
        times_ms: float64 [3, N], nan until known: first scheduled, first token, last token.
    """

    rank: I64
    estimate: F64
    request: I64
    run: I64
    batch: I64
    blocks: I64
    cache: I64
    accept: F64
    times_ms: F64


def new_state(
    identity: I64,
    input_tokens: I64,
    output_tokens: I64,
    rules: Rules,
    ranks: int,
    blocks: tuple[I64, I64, int],
    acceptance: float,
) -> State:
    """Everybody yet to come.

    Args:
        identity, input_tokens, output_tokens: int64 [N], in order of arrival.
        blocks: ids 0..D-1 [T], starts [N + 1], and D.
    """
    requests = len(identity)
    rank = np.zeros((ranks, RANK_COLUMNS), np.int64)
    rank[:, [WAITING, WAITING_LAST, RETRACTED, RETRACTED_LAST, HALF_DONE, OLDEST, NEWEST]] = -1
    ids, starts, distinct = blocks
    request = np.zeros((requests, REQUEST_COLUMNS), np.int64)
    request[:, INPUT], request[:, OUTPUT], request[:, TARGET] = input_tokens, output_tokens, input_tokens
    request[:, IDENTITY] = identity
    request[:, FIRST_BLOCK], request[:, BLOCKS] = starts[:-1], np.diff(starts)
    slots = min(rules.max_running, requests) + 1
    return State(
        rank=rank,
        estimate=np.zeros((ranks, 2)),
        request=request,
        run=np.zeros((ranks, slots), np.int64),
        batch=np.zeros((ranks, slots), np.int64),
        blocks=ids,
        cache=np.full((3, ranks, distinct), -1, np.int64),
        accept=np.cumprod(np.full(rules.query_tokens - 1, acceptance)),
        times_ms=np.full((3, requests), np.nan),
    )
