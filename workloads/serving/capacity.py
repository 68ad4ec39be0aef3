"""The sustainable rate of an engine: what `load_share` divides by.

load_share = (arrival rate per engine) x (engine seconds that one mean request needs at the best batch size).

With D the mean decode tokens of a request (output - 1), c the mean KV tokens that one of its decode steps attends to,
t(n) = decode_ms[n] + (a c + h) n, and n over 1..max_running (fewer where the KV cache holds fewer mean requests):

- decode: D x min_n t(n) / n, so that load_share = offered / sustainable decode token rate, with sustainable =
  max_n n / t(n);
- sglang: the same + P, the prefill time of a mean prompt;
- vllm: min_n [max(0, D / n - m) x decode_ms[n]] + D (a c + h) + P. Each of the m mixed steps that prefill a mean
  prompt carries a decode step of the batch along and so saves one bucket.

P (and m) are the cheaper of two: every prompt alone in its steps, or prompts packed into full steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.arrays import F64, I64
from workloads.serving.limits import PolicyName, SchedulerLimits
from workloads.serving.prefill_curve import curve_ms, prompts_alone
from workloads.serving.step_time import StepTime


@dataclass(frozen=True, slots=True)
class MeanRequest:
    """What one request asks of an engine on average.

    Attributes:
        decode_tokens: output - 1.
        kv_tokens: real KV tokens that one of its decode steps attends to.
        reserved_tokens: input + output, weighted by decode steps: what a running request holds.
    """

    decode_tokens: float
    kv_tokens: float
    reserved_tokens: float


def mean_request(input_tokens: I64, output_tokens: I64) -> MeanRequest:
    """Means over requests [N]; zeros where no request decodes."""
    steps = output_tokens - 1
    total = int(steps.sum())
    if total == 0:
        return MeanRequest(0.0, 0.0, 0.0)
    kv_tokens = float(np.sum(steps * (input_tokens + 0.5 * output_tokens))) / total
    reserved = float(np.sum(steps * (input_tokens + output_tokens).astype(np.float64))) / total
    return MeanRequest(total / len(output_tokens), kv_tokens, reserved)


def engine_ms_per_request(
    input_tokens: I64,
    output_tokens: I64,
    policy: PolicyName,
    limits: SchedulerLimits,
    step_time: StepTime,
    *,
    tokens_per_step: float = 1.0,
    computed_share: float = 1.0,
) -> float:
    """Engine milliseconds that a mean request of these [N] needs at the best batch size; see the module.

    Args:
        tokens_per_step: tokens that a request gains in a decode step; above 1 with speculation.
        computed_share: share of prompt tokens that a prefix cache leaves to compute.
    """
    mean = mean_request(input_tokens, output_tokens)
    most = limits.max_running_requests
    if limits.kv_tokens is not None and mean.reserved_tokens > 0:
        most = max(1, min(most, int(limits.kv_tokens // mean.reserved_tokens)))
    batch = np.arange(1, most + 1, dtype=np.float64)
    bucket_ms = step_time.decode_ms[1 : most + 1]
    steps_alone = mean.decode_tokens / tokens_per_step
    rows_ms = steps_alone * (step_time.attention_ms_per_token * mean.kv_tokens + step_time.row_ms)
    decode_steps = steps_alone / batch
    if policy == "decode":
        return float(np.min(decode_steps * bucket_ms)) + rows_ms
    ways = [
        (ms * computed_share, steps * computed_share) for ms, steps in _prefill_ways(input_tokens, limits, step_time)
    ]
    if policy == "sglang":
        return float(np.min(decode_steps * bucket_ms)) + rows_ms + min(ms for ms, _ in ways)
    return rows_ms + min(ms + _beside_mixed(decode_steps, bucket_ms, mixed) for ms, mixed in ways)


def _beside_mixed(decode_steps: F64, bucket_ms: F64, mixed_steps: float) -> float:
    return float(np.min(np.maximum(0.0, decode_steps - mixed_steps) * bucket_ms))


def _prefill_ways(input_tokens: I64, limits: SchedulerLimits, step_time: StepTime) -> list[tuple[float, float]]:
    """(ms, steps) of a mean prompt: alone in its steps, and packed into full ones."""
    requests = len(input_tokens)
    chunk_tokens = limits.chunked_prefill_tokens
    # Without chunks every prompt is one piece, as long as the longest.
    piece_tokens = int(input_tokens.max()) if chunk_tokens is None else min(chunk_tokens, limits.token_budget)
    curve_tokens, curve_times_ms = step_time.prefill_tokens.copy(), step_time.prefill_ms.copy()
    plain_ms, prefix_ms, steps = prompts_alone(
        input_tokens, piece_tokens, curve_tokens, curve_times_ms, float(step_time.prefix_ms_per_token2)
    )
    alone = ((plain_ms + prefix_ms) / requests, steps / requests)
    full_tokens = limits.token_budget if chunk_tokens is None else piece_tokens
    packed_steps = float(input_tokens.mean()) / full_tokens
    packed_ms = packed_steps * curve_ms(full_tokens, curve_tokens, curve_times_ms)
    return [alone, (packed_ms + prefix_ms / requests, packed_steps)]
