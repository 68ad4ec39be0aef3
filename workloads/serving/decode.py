"""Policy `decode`: a decode node behind disaggregated prefill.

Requests arrive already prefilled. At every step boundary waiting ones are admitted in order of arrival while a slot
(max_running_requests) and KV room for their whole input + output are free; the first that does not fit blocks those
behind it. Then one decode step of all n running requests: family `decode_full`, size n, in requests.

A request with output_tokens L takes part in L - 1 steps; its j-th attends to input_tokens + j real KV tokens: the
prompt and the j tokens generated so far, the newest of which is the step's query. No request is ever preempted.
"""

from __future__ import annotations

import numpy as np

from workloads.arrays import F64, I64
from workloads.compiled import compiled
from workloads.serving.heap import push
from workloads.serving.rows import new_rows, put_decode, with_room
from workloads.serving.stretch import finish_due, steps_until, stretch_ms


@compiled
def decode_kernel(
    arrival_ms: F64,
    input_tokens: I64,
    output_tokens: I64,
    decode_ms: F64,
    attention_ms: float,
    row_ms: float,
    max_running: int,
    kv_capacity: int,
) -> tuple[I64, F64, F64, F64, F64]:
    """Run requests [N] with at least two output tokens, each of which fits into `kv_capacity` alone.

    Returns:
        counts [M, 4] and times [M, 3] as in `rows`; then per request, float64 [N] in ms: first scheduled, end of its
        first step here, end of its last step.
    """
    requests = len(arrival_ms)
    counts, times = new_rows(2 * requests + 1)
    scheduled_ms, first_ms, finish_ms = np.empty(requests), np.empty(requests), np.empty(requests)
    heap = np.empty(min(max_running, requests) + 1, np.int64)
    rows, head, running, step, kv_tokens, reserved_tokens, now_ms = 0, 0, 0, 0, 0, 0, 0.0
    while head < requests or running > 0:
        if running == 0:
            now_ms = max(now_ms, arrival_ms[head])
        oldest_new = head
        head_fits = False
        while head < requests:
            need_tokens = input_tokens[head] + output_tokens[head]
            head_fits = running < max_running and reserved_tokens + need_tokens <= kv_capacity
            if not head_fits or arrival_ms[head] > now_ms:
                break
            running = push(heap, running, (step + output_tokens[head] - 1) * requests + head)
            kv_tokens += input_tokens[head] + 1
            reserved_tokens += need_tokens
            scheduled_ms[head] = now_ms
            head += 1

        base_ms = decode_ms[running] + row_ms * running + attention_ms * kv_tokens
        growth_ms = attention_ms * running
        first_ms[oldest_new:head] = now_ms + base_ms
        steps = heap[0] // requests - step
        if head < requests and head_fits:
            steps = steps_until(arrival_ms[head], now_ms, base_ms, growth_ms, steps)
        span_ms = stretch_ms(steps, base_ms, growth_ms)
        counts, times = with_room(counts, times, rows)
        put_decode(counts, times, rows, running, steps, now_ms, span_ms, kv_tokens)
        rows += 1
        now_ms += span_ms
        step += steps
        kv_tokens += running * steps
        running, freed_tokens = finish_due(heap, running, step, now_ms, input_tokens, output_tokens, finish_ms)
        kv_tokens -= freed_tokens
        reserved_tokens -= freed_tokens
    return counts[:rows], times[:rows], scheduled_ms, first_ms, finish_ms
