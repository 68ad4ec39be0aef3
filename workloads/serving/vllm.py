"""Policy `vllm`: decode and prefill mixed under one token budget (vLLM V1 `scheduler.py`).

Every step takes, in this order, while tokens of token_budget are left:

1. one token of every decoding request (token_budget >= max_running_requests, as vLLM demands, so all of them fit);
2. of every half-done prompt in order of admission, its next chunk;
3. waiting requests in order of arrival, while a slot (max_running_requests; half-done prompts count) and KV room for
   the whole input + output are free; the first that does not fit blocks those behind it.

A chunk is at most chunked_prefill_tokens and the budget that is left. With chunked_prefill_tokens None a prompt is
prefilled in one piece: it waits until it fits into what is left (one longer than the budget was rejected before). vLLM
walks running requests in one order; here decode rows come before half-done prompts, which differs only where a prompt
that was admitted later has overtaken a longer one. Nothing is preempted.

A step with decode rows only is of family `decode_full`, its size is n (one token each). A step with any prefill token
is of family `decode_piecewise`, its size is all its tokens. The last chunk yields the first token; L - 1 decode steps
follow, the j-th attends to input_tokens + j real KV tokens.
"""

from __future__ import annotations

import numpy as np

from workloads.arrays import F64, I64
from workloads.compiled import compiled
from workloads.serving.heap import push
from workloads.serving.prefill_curve import curve_ms
from workloads.serving.rows import new_rows, put_decode, put_prefill, with_room
from workloads.serving.stretch import finish_due, steps_until, stretch_ms


@compiled
def continue_prompts(
    half_done: I64, held: int, done_tokens: I64, input_tokens: I64, ready: I64, chunk_limit: int, room_tokens: int
) -> tuple[int, int, int, float]:
    """Give every half-done prompt its next chunk, in order; finished ones move from `half_done` to `ready`.

    Returns:
        prompts still half done, prompts finished, tokens used, sum of new x prefix tokens.
    """
    kept, finished, used_tokens, prefix_work = 0, 0, 0, 0.0
    for i in range(held):
        request = half_done[i]
        chunk = min(input_tokens[request] - done_tokens[request], chunk_limit, room_tokens - used_tokens)
        prefix_work += float(chunk) * done_tokens[request]
        done_tokens[request] += chunk
        used_tokens += chunk
        if done_tokens[request] == input_tokens[request]:
            ready[finished] = request
            finished += 1
        else:
            half_done[kept] = request
            kept += 1
    return kept, finished, used_tokens, prefix_work


@compiled
def vllm_kernel(
    arrival_ms: F64,
    input_tokens: I64,
    output_tokens: I64,
    decode_ms: F64,
    attention_ms: float,
    row_ms: float,
    curve_tokens: F64,
    curve_times_ms: F64,
    prefix_ms: float,
    max_running: int,
    kv_capacity: int,
    token_budget: int,
    chunk_limit: int,
    chunked: bool,
) -> tuple[I64, F64, F64, F64, F64]:
    """Run requests [N], each of which fits into `kv_capacity` alone.

    Returns:
        counts [M, 4] and times [M, 3] as in `rows`; then per request, float64 [N] in ms: first scheduled, first
        token, last token.
    """
    requests = len(arrival_ms)
    counts, times = new_rows(3 * requests + 1)
    scheduled_ms, first_ms, finish_ms = np.empty(requests), np.empty(requests), np.empty(requests)
    slots = min(max_running, requests) + 1
    heap, ready, half_done = np.empty(slots, np.int64), np.empty(slots, np.int64), np.empty(slots, np.int64)
    done_tokens = np.zeros(requests, np.int64)
    rows, head, running, step, kv_tokens, reserved_tokens, now_ms, half = 0, 0, 0, 0, 0, 0, 0.0, 0
    while head < requests or running > 0 or half > 0:
        if running == 0 and half == 0:
            now_ms = max(now_ms, arrival_ms[head])

        half, finished, new_tokens, prefix_work = continue_prompts(
            half_done, half, done_tokens, input_tokens, ready, chunk_limit, token_budget - running
        )
        head_fits = False
        while head < requests and running + new_tokens < token_budget:
            room_tokens = token_budget - running - new_tokens
            need_tokens = input_tokens[head] + output_tokens[head]
            head_fits = running + half + finished < max_running and reserved_tokens + need_tokens <= kv_capacity
            if not chunked and input_tokens[head] > room_tokens:
                head_fits = False
            if not head_fits or arrival_ms[head] > now_ms:
                break
            chunk = min(input_tokens[head], chunk_limit, room_tokens) if chunked else input_tokens[head]
            done_tokens[head] = chunk
            if chunk == input_tokens[head]:
                ready[finished] = head
                finished += 1
            else:
                half_done[half] = head
                half += 1
            new_tokens += chunk
            reserved_tokens += need_tokens
            scheduled_ms[head] = now_ms
            head += 1

        counts, times = with_room(counts, times, rows)
        if new_tokens > 0:
            steps = 1
            span_ms = (
                curve_ms(running + new_tokens, curve_tokens, curve_times_ms)
                + prefix_ms * prefix_work
                + attention_ms * kv_tokens
                + row_ms * running
            )
            put_prefill(counts, times, rows, running + new_tokens, running, now_ms, span_ms, kv_tokens)
        else:
            base_ms = decode_ms[running] + row_ms * running + attention_ms * kv_tokens
            growth_ms = attention_ms * running
            steps = heap[0] // requests - step
            if head < requests and head_fits:
                steps = steps_until(arrival_ms[head], now_ms, base_ms, growth_ms, steps)
            span_ms = stretch_ms(steps, base_ms, growth_ms)
            put_decode(counts, times, rows, running, steps, now_ms, span_ms, kv_tokens)
        rows += 1
        now_ms += span_ms
        step += steps
        kv_tokens += running * steps
        running, freed_tokens = finish_due(heap, running, step, now_ms, input_tokens, output_tokens, finish_ms)
        kv_tokens -= freed_tokens
        reserved_tokens -= freed_tokens

        for i in range(finished):
            request = ready[i]
            first_ms[request] = now_ms
            if output_tokens[request] == 1:
                finish_ms[request] = now_ms
                reserved_tokens -= input_tokens[request] + 1
            else:
                running = push(heap, running, (step + output_tokens[request] - 1) * requests + request)
                kv_tokens += input_tokens[request] + 1
    return counts[:rows], times[:rows], scheduled_ms, first_ms, finish_ms
