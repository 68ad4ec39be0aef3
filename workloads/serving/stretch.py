"""Stretches of equal decode steps: what makes the simulation's cost follow events instead of steps.

While the batch stays the same n requests, every step attends to n KV tokens more than the one before. So k steps
take k x base + growth x k(k - 1)/2 milliseconds, with base the first step's time and growth = a x n.
"""

from __future__ import annotations

import math

from workloads.arrays import F64, I64
from workloads.compiled import compiled
from workloads.serving.heap import pop


@compiled
def stretch_ms(steps: int, base_ms: float, growth_ms: float) -> float:
    """Milliseconds that `steps` consecutive decode steps of one batch take."""
    return steps * base_ms + growth_ms * (0.5 * steps * (steps - 1.0))


@compiled
def steps_until(target_ms: float, now_ms: float, base_ms: float, growth_ms: float, most: int) -> int:
    """Fewest steps, 1..most, after which the clock reads `target_ms` or later; `most` where none of them gets there.

    The quadratic gives the neighbourhood; comparing the clock itself makes the answer exact.
    """
    linear_ms = base_ms - 0.5 * growth_ms
    wait_ms = max(target_ms - now_ms, 0.0)
    estimate = 2.0 * wait_ms / (linear_ms + math.sqrt(linear_ms * linear_ms + 2.0 * growth_ms * wait_ms))
    steps = most if estimate >= most else max(1, int(math.ceil(estimate)))  # noqa: RUF046 (a float inside numba)
    while steps > 1 and now_ms + stretch_ms(steps - 1, base_ms, growth_ms) >= target_ms:
        steps -= 1
    while steps < most and now_ms + stretch_ms(steps, base_ms, growth_ms) < target_ms:
        steps += 1
    return steps


@compiled
def finish_due(
    heap: I64, held: int, step: int, now_ms: float, input_tokens: I64, output_tokens: I64, finish_ms: F64
) -> tuple[int, int]:
    """Take every request that ends with decode step number `step` off the heap and note its time.

    Keys are (number of the last decode step) x (number of requests) + request.

    Returns:
        requests still on the heap, and KV tokens that the finished ones held.
    """
    requests = len(input_tokens)
    freed_tokens = 0
    while held > 0 and heap[0] // requests == step:
        request = heap[0] % requests
        held = pop(heap, held)
        finish_ms[request] = now_ms
        freed_tokens += input_tokens[request] + output_tokens[request]
    return held, freed_tokens
