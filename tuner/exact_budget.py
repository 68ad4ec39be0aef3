"""Lists under hard budgets (graph memory, capture time): Lagrange multipliers for a bound, labels for the proof."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tuner.exact_kernels import TIE, general_layers, least_ms
from tuner.label_kernel import label_search
from tuner.programme import Programme, follow
from workloads.arrays import F64, I32
from workloads.errors import Infeasible

LABEL_CAPACITY = 400_000
BISECTIONS = 24
DIRECTIONS = ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5))
"""Ratios in which two budgets are priced together; one budget needs the first only."""


@dataclass
class _Search:
    """What is known so far of every length: the best list found, and the best proven bound with its multiplier."""

    programme: Programme
    layers: int
    used: F64  # [2, N + 1]
    limit: F64  # [2], without the fixed part
    scale: F64  # [2], turns a unitless multiplier into ms per unit
    upper_ms: F64 = field(init=False)
    bound_ms: F64 = field(init=False)
    lists: list[list[int] | None] = field(init=False)
    multiplier: F64 = field(init=False)

    def __post_init__(self) -> None:
        self.upper_ms = np.full(self.layers + 1, np.inf)
        self.bound_ms = np.full(self.layers + 1, -np.inf)
        self.lists = [None] * (self.layers + 1)
        self.multiplier = np.zeros((self.layers + 1, 2))

    def offer(self, length: int, chosen: list[int]) -> bool:
        """Note a list for its length and every larger one; returns whether it is within the budgets."""
        if np.any(self.used[:, chosen].sum(axis=1) > self.limit):
            return False
        cost = self.programme.cost_ms(chosen) + float(self.programme.price_ms[chosen].sum())
        for k in range(length, self.layers + 1):
            if cost < self.upper_ms[k] * (1.0 - TIE):
                self.upper_ms[k], self.lists[k] = cost, chosen
        return True

    def relax(self, multiplier: F64) -> list[bool]:
        """Solve the priced problem for every length at once; returns per length whether its list is in budget."""
        value_ms, choice = self.priced(multiplier)
        inside = [True] * (self.layers + 1)
        for k in range(1, self.layers + 1):
            if value_ms[k, 0] == np.inf:
                self.bound_ms[k] = np.inf  # no list of this length at all
            else:
                bound = value_ms[k, 0] - float(multiplier @ self.limit)
                if bound > self.bound_ms[k]:
                    self.bound_ms[k], self.multiplier[k] = bound, multiplier
                chosen = follow(choice, k)
                inside[k] = self.offer(len(chosen), chosen)
        return inside

    def priced(self, multiplier: F64) -> tuple[F64, I32]:
        price_ms = self.programme.price_ms + multiplier @ self.used
        return general_layers(*self.programme.general(price_ms), self.layers)

    def open_lengths(self) -> list[int]:
        return [
            k for k in range(1, self.layers + 1) if self.upper_ms[k] > self.bound_ms[k] + TIE * abs(self.bound_ms[k])
        ]


def solve_budgeted(programme: Programme, layers: int) -> tuple[list[tuple[int, list[int]]], bool, float]:
    """Best lists within all resources of the problem.

    Returns:
        (length, positions) of every length that has a list, whether all are proven, and the largest relative gap.

    Raises:
        Infeasible: no list at all stays within one of the budgets; names the smallest that is reachable.
    """
    used, limit = _resources(programme)
    least = _least_used(programme, used, limit)
    search = _Search(programme, layers, used, limit, 1.0 / np.maximum(np.abs(limit), 1e-9))
    search.relax(np.zeros(2))
    for direction in DIRECTIONS if len(programme.problem.resources) == 2 else DIRECTIONS[:1]:
        _bisect(search, np.array(direction) * search.scale)
    proven = _close(search, least)
    _prefer_shorter(search)
    lists = [(k, chosen) for k, chosen in enumerate(search.lists) if chosen is not None]
    gaps = [0.0 if proven[k] else (search.upper_ms[k] - search.bound_ms[k]) / search.bound_ms[k] for k, _ in lists]
    return lists, all(proven[1:]), float(max(gaps, default=0.0))


def _resources(programme: Programme) -> tuple[F64, F64]:
    positions = len(programme.positions)
    used = np.zeros((2, positions))
    limit = np.zeros(2)
    for row, resource in enumerate(programme.problem.resources):
        used[row, 1:] = resource.used
        # Sums of measured values: a list that is exactly at its budget must pass.
        limit[row] = (resource.limit - resource.fixed) + 1e-9 * abs(resource.limit)
    return used, limit


def _least_used(programme: Programme, used: F64, limit: F64) -> F64:
    """Least use of each resource from every position on; float64 [2, N + 1]."""
    free = programme.free()
    least = np.zeros_like(used)
    for row, resource in enumerate(programme.problem.resources):
        least[row] = least_ms(*free.general(used[row]))
        smallest = least[row, 0] + resource.fixed
        if least[row, 0] > limit[row]:
            if not np.isfinite(smallest):
                return least
            raise Infeasible(
                f"no list stays within {resource.limit:g} of {resource.name}; the smallest that is reachable under the "
                f"other constraints is {smallest:.6g}"
            )
    return least


def _bisect(search: _Search, direction: F64) -> None:
    """Narrow the multiplier of every open length between too cheap and dear enough."""
    scale = max(float(np.max(search.programme.bucket_ms)), 1e-9)
    low = np.zeros(search.layers + 1)
    high = np.full(search.layers + 1, np.inf)
    step = scale
    for _ in range(BISECTIONS):
        open_lengths = [k for k in search.open_lengths() if high[k] - low[k] > 1e-6 * scale]
        if not open_lengths:
            return
        widest = max(open_lengths, key=lambda k: (high[k] - low[k], k))
        trial = (low[widest] + high[widest]) / 2 if np.isfinite(high[widest]) else max(step, 4 * low[widest])
        inside = search.relax(trial * direction)
        for k in open_lengths:
            if inside[k]:
                high[k] = min(high[k], trial)
            else:
                low[k] = max(low[k], trial)


def _close(search: _Search, least: F64) -> list[bool]:
    """Prove or improve every length, longest first: a list shorter than its bound answers the lengths between too."""
    proven = [True] * (search.layers + 1)
    k = search.layers
    while k >= 1:
        done = k not in search.open_lengths() or _label(search, least, k)
        chosen = search.lists[k]
        shortest = min(len(chosen), k) if chosen is not None else 1
        for length in range(shortest, k + 1):
            proven[length] = done
            if done and chosen is not None:
                search.upper_ms[length], search.lists[length] = search.upper_ms[k], chosen
        k = shortest - 1
    return proven


def _prefer_shorter(search: _Search) -> None:
    """A shorter list that costs the same answers the longer length too; multipliers may have found a long one first."""
    for k in range(2, search.layers + 1):
        if search.lists[k - 1] is not None and search.upper_ms[k - 1] <= search.upper_ms[k] * (1.0 + TIE):
            search.upper_ms[k], search.lists[k] = search.upper_ms[k - 1], search.lists[k - 1]


def _label(search: _Search, least: F64, k: int) -> bool:
    p = search.programme
    multiplier = search.multiplier[k]
    completion_ms, _ = search.priced(multiplier)
    cost, chosen, complete = label_search(
        *p.general(p.price_ms),
        search.used,
        search.limit,
        least,
        multiplier,
        completion_ms,
        k,
        float(search.upper_ms[k]),
        LABEL_CAPACITY,
    )
    if cost < np.inf:
        found = [int(j) for j in chosen[::-1]]
        search.offer(len(found), found)
    return bool(complete)
