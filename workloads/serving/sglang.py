"""Policy `sglang`: prefill first (SGLang `scheduler.py`, `get_next_batch_to_run`, without mixed chunks).

At every step boundary: if a prompt is half done, or a waiting request can be admitted, the step is a prefill batch;
otherwise it is one decode step of all running requests.

- Prefill batch: family `prefill_breakable`, size = new tokens. It holds at most min(token_budget,
  chunked_prefill_tokens) tokens: first the rest of the half-done prompt, then waiting requests in order of arrival.
  Each takes as much of its prompt as there is room; whoever gets only a part closes the batch and goes on in the next
  step, so at most one prompt is half done. Without chunking prompts are taken whole while they fit into token_budget;
  the first is taken even when it is longer.
- A request is admitted while a slot (max_running_requests; half-done prompts count) and KV room for its whole input +
  output are free; the first that does not fit blocks those behind it. Nothing is retracted later.
- Its last chunk yields the first token; L - 1 decode steps follow, family `decode_full`, size n, in requests. The j-th
  attends to input_tokens + j real KV tokens.
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
def sglang_kernel(
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
    batch_tokens: int,
    chunked: bool,
) -> tuple[I64, F64, F64, F64, F64]:
    """Run requests [N], each of which fits into `kv_capacity` alone.

    Args:
        batch_tokens: most new tokens of a prefill step.

    Returns:
        counts [M, 4] and times [M, 3] as in `rows`; then per request, float64 [N] in ms: first scheduled, first
        token, last token.
    """
    requests = len(arrival_ms)
    counts, times = new_rows(3 * requests + 1)
    scheduled_ms, first_ms, finish_ms = np.empty(requests), np.empty(requests), np.empty(requests)
    heap = np.empty(min(max_running, requests) + 1, np.int64)
    ready = np.empty(min(max_running, requests) + 1, np.int64)
    rows, head, running, step, kv_tokens, reserved_tokens, now_ms = 0, 0, 0, 0, 0, 0, 0.0
    half_done, done_tokens = -1, 0
    while head < requests or running > 0 or half_done >= 0:
        if running == 0 and half_done < 0:
            now_ms = max(now_ms, arrival_ms[head])

        new_tokens, finished, prefix_work, room_tokens = 0, 0, 0.0, batch_tokens
        if half_done >= 0:
            new_tokens = min(room_tokens, input_tokens[half_done] - done_tokens)
            prefix_work = float(new_tokens) * done_tokens
            done_tokens += new_tokens
            room_tokens -= new_tokens
            if done_tokens == input_tokens[half_done]:
                ready[finished] = half_done
                finished += 1
                half_done = -1
        head_fits = False
        while head < requests and half_done < 0 and room_tokens > 0:
            need_tokens = input_tokens[head] + output_tokens[head]
            head_fits = running + finished < max_running and reserved_tokens + need_tokens <= kv_capacity
            if not head_fits or arrival_ms[head] > now_ms:
                break
            chunk_tokens = input_tokens[head]
            if chunk_tokens > room_tokens:
                if chunked:
                    chunk_tokens = room_tokens
                    half_done, done_tokens = head, chunk_tokens
                elif new_tokens > 0:
                    break
            if half_done < 0:
                ready[finished] = head
                finished += 1
            new_tokens += chunk_tokens
            room_tokens -= chunk_tokens
            reserved_tokens += need_tokens
            scheduled_ms[head] = now_ms
            head += 1

        counts, times = with_room(counts, times, rows)
        if new_tokens > 0:
            step_ms = curve_ms(new_tokens, curve_tokens, curve_times_ms) + prefix_ms * prefix_work
            put_prefill(counts, times, rows, new_tokens, 0, now_ms, step_ms, 0)
            now_ms += step_ms
        else:
            base_ms = decode_ms[running] + row_ms * running + attention_ms * kv_tokens
            growth_ms = attention_ms * running
            steps = heap[0] // requests - step
            if head < requests and head_fits:
                steps = steps_until(arrival_ms[head], now_ms, base_ms, growth_ms, steps)
            span_ms = stretch_ms(steps, base_ms, growth_ms)
            put_decode(counts, times, rows, running, steps, now_ms, span_ms, kv_tokens)
            now_ms += span_ms
            step += steps
            kv_tokens += running * steps
            running, freed_tokens = finish_due(heap, running, step, now_ms, input_tokens, output_tokens, finish_ms)
            kv_tokens -= freed_tokens
            reserved_tokens -= freed_tokens
        rows += 1

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
