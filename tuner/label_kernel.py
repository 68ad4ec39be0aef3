"""Label setting for lists under hard budgets: exact where it runs to its end, pruned by a Lagrangian bound."""

from __future__ import annotations

import numpy as np

from tuner.exact_kernels import TIE
from workloads.arrays import F64, I32, I64
from workloads.compiled import compiled


@compiled
def label_search(
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
    used: F64,
    limit: F64,
    least_used: F64,
    multiplier: F64,
    completion_ms: F64,
    layers: int,
    upper_ms: float,
    capacity: int,
) -> tuple[float, I32, bool]:
    """Cheapest list of at most `layers` buckets within two budgets and below `upper_ms`.

    Args:
        used: float64 [2, N + 1], what each bucket takes of each budget; `limit` float64 [2].
        least_used: float64 [2, N + 1], the least that any admissible continuation from a position takes.
        multiplier: float64 [2], Lagrange multipliers of `completion_ms`.
        completion_ms: float64 [layers + 1, N + 1], least penalised cost with at most r further buckets.
        capacity: most labels to create before giving up.

    Returns:
        cost (inf when nothing beats `upper_ms`), positions of the buckets in decreasing order, and whether the search
        ended by itself, i.e. the answer is proven.
    """
    n = len(weight) - 1
    cost = np.empty(capacity)
    first = np.empty(capacity)
    second = np.empty(capacity)
    count = np.empty(capacity, dtype=np.int32)
    node = np.empty(capacity, dtype=np.int32)
    parent = np.empty(capacity, dtype=np.int32)
    following = np.empty(capacity, dtype=np.int32)
    head = np.full(n + 1, -1, dtype=np.int32)
    cost[0], first[0], second[0], count[0], node[0], parent[0], following[0] = 0.0, 0.0, 0.0, 0, 0, -1, -1
    head[0] = 0
    labels = 1
    best = -1
    complete = True
    slack = multiplier[0] * limit[0] + multiplier[1] * limit[1]
    for i in range(n + 1):
        label = head[i]
        while label != -1 and complete:
            if i > 0 and first[label] <= limit[0] and second[label] <= limit[1]:
                ended = cost[label] + tail_ms[i]
                if ended < upper_ms * (1.0 - TIE):
                    upper_ms = ended
                    best = label
            if count[label] == layers:
                label = following[label]
                continue
            for j in range(i + 1, n + 1):
                if start[j] > i:
                    continue
                a = first[label] + used[0, j]
                b = second[label] + used[1, j]
                if a + least_used[0, j] > limit[0] or b + least_used[1, j] > limit[1]:
                    continue
                served = bucket_ms[j] * (weight[j] - max(weight[i], unserved_weight[j]))
                c = cost[label] + price_ms[j] + served + max(unserved_ms[j] - spent_ms[i], 0.0)
                for f in range(len(shared_ms)):
                    c += shared_ms[f, j] * (shared_weight[f, j] - shared_weight[f, i])
                bound = c + multiplier[0] * a + multiplier[1] * b - slack + completion_ms[layers - count[label] - 1, j]
                if not bound < upper_ms * (1.0 - TIE):
                    continue
                dominated = False
                previous = -1
                other = head[j]
                while other != -1:
                    after = following[other]
                    fewer = count[other] <= count[label] + 1
                    if fewer and cost[other] <= c and first[other] <= a and second[other] <= b:
                        dominated = True
                        break
                    if (
                        count[other] >= count[label] + 1
                        and cost[other] >= c
                        and first[other] >= a
                        and second[other] >= b
                    ):
                        if previous == -1:
                            head[j] = after
                        else:
                            following[previous] = after
                    else:
                        previous = other
                    other = after
                if dominated:
                    continue
                if labels == capacity:
                    complete = False
                    break
                cost[labels], first[labels], second[labels] = c, a, b
                count[labels], node[labels], parent[labels] = count[label] + 1, j, label
                following[labels] = head[j]
                head[j] = labels
                labels += 1
            label = following[label]
        if not complete:
            break
    chosen = np.empty(layers, dtype=np.int32)
    length = 0
    step = best
    while step > 0:
        chosen[length] = node[step]
        length += 1
        step = parent[step]
    return (upper_ms if best >= 0 else np.inf), chosen[:length], complete
