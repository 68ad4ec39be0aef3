"""The measured prefill curve at any token count, as `StepTime` defines it."""

from __future__ import annotations

from workloads.arrays import F64, I64
from workloads.compiled import compiled


@compiled
def curve_ms(tokens: int, curve_tokens: F64, curve_times_ms: F64) -> float:
    """Milliseconds of a prefill of `tokens` without prefix.

    Linear between points; no faster than the first point below it, as reading the weights takes what it takes; last
    slope (never falling; proportional with one point) above the last.
    """
    time_ms: float = curve_times_ms[0]
    points = len(curve_tokens)
    if tokens <= curve_tokens[0]:
        return time_ms
    if points == 1:
        time_ms *= tokens / curve_tokens[0]
        return time_ms
    low, high = 0, points - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if curve_tokens[middle] < tokens:
            low = middle
        else:
            high = middle
    slope = (curve_times_ms[high] - curve_times_ms[low]) / (curve_tokens[high] - curve_tokens[low])
    if tokens > curve_tokens[high]:
        time_ms = curve_times_ms[high] + max(slope, 0.0) * (tokens - curve_tokens[high])
    else:
        time_ms = curve_times_ms[low] + slope * (tokens - curve_tokens[low])
    return time_ms


@compiled
def prompts_alone(
    input_tokens: I64, piece_tokens: int, curve_tokens: F64, curve_times_ms: F64, prefix_ms: float
) -> tuple[float, float, int]:
    """What the prompts cost when each is prefilled by itself in pieces of at most `piece_tokens`.

    Returns:
        milliseconds of the curve, milliseconds of attending to earlier pieces, number of steps; summed over prompts.
    """
    plain_ms, prefix_total_ms, steps = 0.0, 0.0, 0
    full_ms = curve_ms(piece_tokens, curve_tokens, curve_times_ms)
    for request in range(len(input_tokens)):
        full = input_tokens[request] // piece_tokens
        rest = input_tokens[request] - full * piece_tokens
        plain_ms += full * full_ms
        work = piece_tokens * float(piece_tokens) * (0.5 * full * (full - 1.0))
        steps += full
        if rest > 0:
            plain_ms += curve_ms(rest, curve_tokens, curve_times_ms)
            work += rest * float(full * piece_tokens)
            steps += 1
        prefix_total_ms += prefix_ms * work
    return plain_ms, prefix_total_ms, steps
