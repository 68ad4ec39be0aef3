"""The jump lands on the very step that counting would find, also when an arrival sits on a boundary."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workloads.serving.heap import pop, push
from workloads.serving.stretch import steps_until, stretch_ms

times = st.floats(0.01, 100.0)


@given(times, st.floats(0, 1.0), st.floats(0, 1e7), st.integers(1, 300), st.integers(1, 300), st.integers(-1, 1))
def test_first_boundary_at_or_after_a_target(
    base_ms: float, growth_share: float, now_ms: float, boundary: int, most: int, beside: int
) -> None:
    growth_ms = growth_share * base_ms
    target_ms = now_ms + stretch_ms(boundary, base_ms, growth_ms)
    if beside:
        target_ms = float(np.nextafter(target_ms, beside * np.inf))
    reached = (k for k in range(1, most) if now_ms + stretch_ms(k, base_ms, growth_ms) >= target_ms)
    assert steps_until(target_ms, now_ms, base_ms, growth_ms, most) == next(reached, most)


@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=60))
def test_heap_is_a_heap(actions: list[int | None]) -> None:
    """Numbers are pushed, None pops; the standard library is the judge."""
    heap, held, judge = np.zeros(64, np.int64), 0, list[int]()
    for key in actions:
        if key is not None:
            held = push(heap, held, key)
            heapq.heappush(judge, key)
        elif judge:
            assert heap[0] == heapq.heappop(judge)
            held = pop(heap, held)
        assert held == len(judge)
