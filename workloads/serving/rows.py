"""Growing buffers for the step rows that a kernel emits: `counts` int64 [M, 4] and `times` float64 [M, 3].

counts: step size, steps, family index, decode rows of one step.
times: start in ms, mean step in ms, mean KV tokens that the decode rows of one step attend to.
"""

from __future__ import annotations

import numpy as np

from workloads.arrays import F64, I64
from workloads.compiled import compiled

SIZE, STEPS, FAMILY, DECODE_ROWS = 0, 1, 2, 3
START_MS, STEP_MS, KV_TOKENS = 0, 1, 2


@compiled
def new_rows(capacity: int) -> tuple[I64, F64]:
    """Empty buffers for `capacity` rows."""
    return np.empty((capacity, 4), np.int64), np.empty((capacity, 3), np.float64)


@compiled
def with_room(counts: I64, times: F64, rows: int) -> tuple[I64, F64]:
    """The buffers, twice as large if `rows` fill them."""
    if rows < len(counts):
        return counts, times
    more_counts, more_times = new_rows(2 * rows + 16)
    more_counts[:rows] = counts
    more_times[:rows] = times
    return more_counts, more_times


@compiled
def put_decode(
    counts: I64, times: F64, row: int, running: int, steps: int, now_ms: float, span_ms: float, kv_tokens: int
) -> None:
    """Write a stretch of `steps` decode steps (family 0) whose first attends to `kv_tokens`."""
    mean_kv_tokens = kv_tokens + 0.5 * running * (steps - 1.0)
    put_stretch(counts, times, row, running, running, steps, now_ms, span_ms, mean_kv_tokens)


@compiled
def put_stretch(
    counts: I64,
    times: F64,
    row: int,
    size: int,
    decode_rows: int,
    steps: int,
    now_ms: float,
    span_ms: float,
    mean_kv_tokens: float,
) -> None:
    """Write a stretch of decode steps (family 0) whose size need not be its number of rows."""
    counts[row, 0] = size
    counts[row, 1] = steps
    counts[row, 2] = 0
    counts[row, 3] = decode_rows
    times[row, 0] = now_ms
    times[row, 1] = span_ms / steps
    times[row, 2] = mean_kv_tokens


@compiled
def extend_stretch(counts: I64, times: F64, rows: int, size: int, step_ms: float, kv_tokens: int) -> bool:
    """Let the last of `rows` rows stand for one decode step more, where it has that size; False where it has not."""
    last = rows - 1
    if last < 0 or counts[last, 2] != 0 or counts[last, 0] != size:
        return False
    counts[last, 1] += 1
    times[last, 1] += (step_ms - times[last, 1]) / counts[last, 1]
    times[last, 2] += (kv_tokens - times[last, 2]) / counts[last, 1]
    return True


@compiled
def put_prefill(
    counts: I64, times: F64, row: int, tokens: int, decode_rows: int, now_ms: float, step_ms: float, kv_tokens: int
) -> None:
    """Write one step with prefill tokens (family 1)."""
    counts[row, 0] = tokens
    counts[row, 1] = 1
    counts[row, 2] = 1
    counts[row, 3] = decode_rows
    times[row, 0] = now_ms
    times[row, 1] = step_ms
    times[row, 2] = kv_tokens
