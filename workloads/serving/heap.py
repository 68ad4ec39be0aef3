"""A binary min-heap in an int64 array, for kernels: which running request finishes first."""

from __future__ import annotations

from workloads.arrays import I64
from workloads.compiled import compiled


@compiled
def push(heap: I64, held: int, key: int) -> int:
    """Add `key` to the `held` keys in `heap[:held]`; gives back held + 1. The array must have room."""
    at = held
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= key:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = key
    return held + 1


@compiled
def pop(heap: I64, held: int) -> int:
    """Drop the least key, `heap[0]`; gives back held - 1."""
    held -= 1
    key = heap[held]
    at = 0
    child = 1
    while child < held:
        if child + 1 < held and heap[child + 1] < heap[child]:
            child += 1
        if key <= heap[child]:
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = key
    return held
