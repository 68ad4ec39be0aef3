"""Compiled recurrences of the exact solver.

Positions 0..N stand for "nothing chosen yet" and the N candidate sizes in increasing order. All arrays are indexed by
position unless said otherwise:

- `weight`: total weight of the steps whose size is at most the position's (0 at position 0); non-decreasing.
- `bucket_ms`: g of the candidate; `price_ms`: added once when it is chosen. Index 0 of both is unused.
- `tail_ms`: cost of ending the list there, i.e. of all larger steps without a graph; inf where not admissible.
- `start`: smallest position i from which one bucket j may serve every size in (i, j].

The cost of serving (i, j] by bucket j is bucket_ms[j] x (weight[j] - weight[i]), a line in bucket_ms[j] for every i, so
that the best i is found on a lower envelope. Nothing is assumed of bucket_ms: measured curves have inversions, which
break the Monge property that divide and conquer or SMAWK would need.
"""

from __future__ import annotations

import numpy as np

from workloads.arrays import F64, I32, I64, Bool
from workloads.compiled import compiled

TIE = 1e-12
"""Relative difference below which two costs count as equal; the shorter list then wins."""


@compiled
def hull_layers(weight: F64, bucket_ms: F64, price_ms: F64, tail_ms: F64, layers: int) -> tuple[F64, I32, I32]:
    """Least cost with exactly k buckets, every window open, in O(layers x N log N).

    Returns:
        total_ms float64 [layers + 1] (inf where impossible), last int32 [layers + 1] the largest bucket's position,
        parent int32 [layers + 1, N + 1] the position before each bucket.
    """
    n = len(weight) - 1
    parent = np.zeros((layers + 1, n + 1), dtype=np.int32)
    total_ms = np.full(layers + 1, np.inf)
    last = np.zeros(layers + 1, dtype=np.int32)
    before = np.full(n + 1, np.inf)
    before[0] = 0.0
    now = np.empty(n + 1)
    hull = np.empty(n + 1, dtype=np.int32)
    crossing = np.empty(n + 1)  # crossing[t]: bucket_ms from which hull[t] beats hull[t - 1]
    for k in range(1, layers + 1):
        now[:] = np.inf
        top = 0
        for j in range(k, n + 1):
            i = j - 1
            if before[i] < np.inf and not (
                top > 0 and weight[hull[top - 1]] == weight[i] and before[hull[top - 1]] <= before[i]
            ):
                if top > 0 and weight[hull[top - 1]] == weight[i]:
                    top -= 1
                at = -np.inf
                while top > 0:
                    b = hull[top - 1]
                    at = (before[i] - before[b]) / (weight[i] - weight[b])
                    if top == 1 or at > crossing[top - 1]:
                        break
                    top -= 1
                hull[top] = i
                crossing[top] = at
                top += 1
            if top == 0:
                continue
            slope = bucket_ms[j]
            low = 0
            high = top - 1
            while low < high:
                middle = (low + high + 1) >> 1
                if crossing[middle] < slope:
                    low = middle
                else:
                    high = middle - 1
            best = hull[low]
            now[j] = before[best] + slope * (weight[j] - weight[best]) + price_ms[j]
            parent[k, j] = best
            if now[j] + tail_ms[j] < total_ms[k]:
                total_ms[k] = now[j] + tail_ms[j]
                last[k] = j
        before, now = now, before
    return total_ms, last, parent


@compiled
def hull_floor(weight: F64, bucket_ms: F64, tail_ms: F64) -> float:
    """Least cost with any number of buckets (at least one), every window open, no prices.

    The envelope is that of `hull_layers`, written out again: as a function that both call, numba's code for it takes
    three to five times as long (seen on 512, 2,048 and 16,384 sizes, inlined or not).
    """
    n = len(weight) - 1
    value = np.full(n + 1, np.inf)
    value[0] = 0.0
    hull = np.empty(n + 1, dtype=np.int32)
    crossing = np.empty(n + 1)
    top = 0
    floor_ms = np.inf
    for j in range(1, n + 1):
        i = j - 1
        if not (top > 0 and weight[hull[top - 1]] == weight[i] and value[hull[top - 1]] <= value[i]):
            if top > 0 and weight[hull[top - 1]] == weight[i]:
                top -= 1
            at = -np.inf
            while top > 0:
                b = hull[top - 1]
                at = (value[i] - value[b]) / (weight[i] - weight[b])
                if top == 1 or at > crossing[top - 1]:
                    break
                top -= 1
            hull[top] = i
            crossing[top] = at
            top += 1
        slope = bucket_ms[j]
        low = 0
        high = top - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if crossing[middle] < slope:
                low = middle
            else:
                high = middle - 1
        best = hull[low]
        value[j] = value[best] + slope * (weight[j] - weight[best])
        floor_ms = min(floor_ms, value[j] + tail_ms[j])
    return floor_ms


@compiled
def general_layers(
    weight: F64,
    bucket_ms: F64,
    price_ms: F64,
    tail_ms: F64,
    start: I64,
    unserved_weight: F64,
    unserved_ms: F64,
    spent_ms: F64,
    shared_ms: F64,
    shared_weight: F64,
    layers: int,
) -> tuple[F64, I32]:
    """Least cost with at most r further buckets from every position, any windows, in O(layers x N^2).

    Engines may refuse a bucket for steps that are too small for it. Those cost their fallback: `unserved_weight[j]` is
    the weight of all sizes that bucket j never serves, `unserved_ms[j]` their cost without a graph, and `spent_ms[i]`
    the cost without a graph of all sizes up to i. All zero where an engine has no such rule.

    Other families that run in graphs of the same list add `shared_ms[f, j]` for each of their steps that bucket j
    serves, `shared_weight[f]` being their cumulated weight; both float64 [F, N + 1].

    Returns:
        value_ms float64 [layers + 1, N + 1]; choice int32 of that shape: the next bucket, or -1 where one bucket fewer
        is as good.
    """
    n = len(weight) - 1
    value_ms = np.empty((layers + 1, n + 1))
    choice = np.full((layers + 1, n + 1), -1, dtype=np.int32)
    value_ms[0] = tail_ms
    fresh = np.empty(n + 1)
    pick = np.zeros(n + 1, dtype=np.int32)
    others = np.zeros(n + 1)  # of one bucket: time of the other families by the position before it
    for r in range(1, layers + 1):
        fresh[:] = np.inf
        for j in range(1, n + 1):
            rest = price_ms[j] + value_ms[r - 1, j]
            if rest == np.inf:
                continue
            g = bucket_ms[j]
            for f in range(len(shared_ms)):
                for i in range(start[j], j):
                    served = shared_ms[f, j] * (shared_weight[f, j] - shared_weight[f, i])
                    others[i] = served if f == 0 else others[i] + served
            for i in range(start[j], j):
                cost = (
                    rest + g * (weight[j] - max(weight[i], unserved_weight[j])) + max(unserved_ms[j] - spent_ms[i], 0.0)
                ) + others[i]
                if cost < fresh[i]:
                    fresh[i] = cost
                    pick[i] = j
        for i in range(n + 1):
            if fresh[i] < value_ms[r - 1, i] * (1.0 - TIE):
                value_ms[r, i] = fresh[i]
                choice[r, i] = pick[i]
            else:
                value_ms[r, i] = value_ms[r - 1, i]
    return value_ms, choice


@compiled
def interval_layers(cost: F64, tail: F64, start: I64, layers: int) -> tuple[F64, I32]:
    """As `general_layers`, for any cost of a bucket j that serves what lies above position i: float64 [N + 1, N + 1],
    read at [j, i] with i below j."""
    n = len(tail) - 1
    value = np.empty((layers + 1, n + 1))
    choice = np.full((layers + 1, n + 1), -1, dtype=np.int32)
    value[0] = tail
    for r in range(1, layers + 1):
        value[r] = value[r - 1]
        for j in range(1, n + 1):
            rest = value[r - 1, j]
            if rest == np.inf:
                continue
            for i in range(start[j], j):
                if rest + cost[j, i] < value[r, i] * (1.0 - TIE):
                    value[r, i] = rest + cost[j, i]
                    choice[r, i] = j
    return value, choice


@compiled
def least_ms(
    weight: F64,
    bucket_ms: F64,
    price_ms: F64,
    tail_ms: F64,
    start: I64,
    unserved_weight: F64,
    unserved_ms: F64,
    spent_ms: F64,
    shared_ms: F64,
    shared_weight: F64,
) -> F64:
    """Least cost to go from every position with any number of buckets, in O(N^2): float64 [N + 1]."""
    n = len(weight) - 1
    value_ms = tail_ms.copy()
    for j in range(n, 0, -1):
        rest = price_ms[j] + value_ms[j]
        if rest == np.inf:
            continue
        g = bucket_ms[j]
        for i in range(start[j], j):
            cost = rest + g * (weight[j] - max(weight[i], unserved_weight[j])) + max(unserved_ms[j] - spent_ms[i], 0.0)
            for f in range(len(shared_ms)):
                cost += shared_ms[f, j] * (shared_weight[f, j] - shared_weight[f, i])
            value_ms[i] = min(value_ms[i], cost)
    return value_ms


@compiled
def window_starts(
    positions: I64, bucket_ms: F64, limit_ms: F64, tail_forbidden: Bool, served_from: I64, floor: I64
) -> I64:
    """Smallest admissible i for every bucket j, given what each single size tolerates.

    Args:
        positions: int64 [N + 1], 0 and the candidate sizes.
        limit_ms: float64 [S + 1], by size: the slowest bucket that the size may get; inf where anything goes.
        tail_forbidden: bool [S + 1], by size: it must not run without a graph.
        served_from: int64 [N + 1], the smallest size that the engine lets bucket j serve.
        floor: int64 [N + 1], a lower bound from elsewhere (required sizes).
    """
    n = len(positions) - 1
    largest = len(limit_ms) - 1
    start = np.zeros(n + 1, dtype=np.int64)
    for j in range(1, n + 1):
        violation = 0
        for s in range(min(positions[j], largest), 0, -1):
            bad = bucket_ms[j] > limit_ms[s] if s >= served_from[j] else tail_forbidden[s]
            if bad:
                violation = s
                break
        start[j] = max(floor[j], np.searchsorted(positions, violation))
    return start
