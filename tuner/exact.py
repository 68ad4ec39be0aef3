"""The exact solver: for every list length the capture list of least expected step time, for any measured curve.

One plain family is solved on lower envelopes of lines in O(K N log N). Regret bounds, required sizes and engine
dispatch rules restrict which sizes a bucket may serve; then a general dynamic programme in O(K N^2) answers. Hard
budgets are priced by Lagrange multipliers and closed by label setting (`tuner.exact_budget`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from tuner.exact_budget import solve_budgeted
from tuner.exact_kernels import TIE, general_layers, hull_floor, hull_layers, least_ms
from tuner.label_kernel import label_search
from tuner.programme import Problem, Programme, Resource, compile_problem, follow
from workloads.arrays import I32
from workloads.errors import Infeasible

__all__ = ["DEFAULT_MAX_LENGTH", "BestList", "Problem", "Resource", "Solution", "floor_ms", "solve"]

DEFAULT_MAX_LENGTH = 64
Method = Literal["auto", "hull", "general"]


@dataclass(frozen=True, slots=True)
class BestList:
    """Best list of at most `list_length` sizes; `mean_ms` is its weighted mean step time, prices left out."""

    list_length: int
    sizes: tuple[int, ...]
    mean_ms: float


@dataclass(frozen=True, slots=True)
class Solution:
    """The front.

    Attributes:
        front: one entry per length that some admissible list keeps, lengths increasing.
        floor_ms: least mean with any number of sizes, without regret bound, budgets and prices.
        optimal: every entry is proven.
        gap: largest (cost - proven bound) / bound over the entries; 0 where optimal.
        solve_ms: time inside the compiled solver, after compilation.
    """

    front: tuple[BestList, ...]
    floor_ms: float
    optimal: bool
    gap: float
    solve_ms: float


def solve(problem: Problem, max_length: int = DEFAULT_MAX_LENGTH, *, method: Method = "auto") -> Solution:
    """Solve for every length up to `max_length` (or the number of candidates, if smaller).

    Args:
        method: `general` runs the general programme where the hull would do; for comparison.

    Raises:
        BadInput: a step above every candidate has no known time without a graph.
        Infeasible: no list of up to `max_length` sizes meets the constraints; says what would.
    """
    warm_up()
    programme = compile_problem(problem)
    layers = min(max_length, len(problem.candidates))
    optimal, gap = True, 0.0
    begin = time.perf_counter()
    if problem.resources:
        lists, optimal, gap = solve_budgeted(programme, layers)
    elif problem.plain and method != "general":
        lists = _by_hull(programme, layers)
    else:
        lists = _by_windows(programme, layers)
    solve_ms = (time.perf_counter() - begin) * 1e3
    if not lists:
        raise Infeasible(why_none(programme, layers), field="max_length")
    front = tuple(BestList(k, _sizes(programme, chosen), programme.cost_ms(chosen)) for k, chosen in lists)
    return Solution(front, floor_ms(problem), optimal, gap, solve_ms)


def _sizes(programme: Programme, chosen: list[int]) -> tuple[int, ...]:
    return tuple(int(programme.positions[j]) for j in chosen)


def _by_hull(programme: Programme, layers: int) -> list[tuple[int, list[int]]]:
    p = programme
    total_ms, last, parent = hull_layers(p.weight, p.bucket_ms, p.price_ms, p.tail_ms, layers)
    lists: list[tuple[int, list[int]]] = []
    best_ms = np.inf
    for k in range(1, layers + 1):
        if total_ms[k] < best_ms * (1.0 - TIE):
            best_ms = total_ms[k]
            chosen = _ancestors(parent, k, int(last[k]))
        if best_ms < np.inf:
            lists.append((k, chosen))
    return lists


def _ancestors(parent: I32, k: int, last: int) -> list[int]:
    chosen = []
    while k > 0:
        chosen.append(last)
        last, k = int(parent[k, last]), k - 1
    return chosen[::-1]


def _by_windows(programme: Programme, layers: int) -> list[tuple[int, list[int]]]:
    value_ms, choice = general_layers(*programme.general(programme.price_ms), layers)
    return [(k, follow(choice, k)) for k in range(1, layers + 1) if value_ms[k, 0] < np.inf]


def floor_ms(problem: Problem) -> float:
    """Least mean with any number of sizes, without regret bound, budgets and prices; required sizes still hold."""
    free = compile_problem(replace(problem, regret=np.inf, resources=(), price_ms=None))
    if free.problem.plain:
        return float(hull_floor(free.weight, free.bucket_ms, free.tail_ms))
    return float(least_ms(*free.general(np.zeros_like(free.price_ms)))[0])


def why_none(programme: Programme, layers: int) -> str:
    """Why no list of at most `layers` sizes meets the constraints, and what would."""
    p = programme
    # Every bucket costs one and nothing else does: the value is the fewest sizes that meet the constraints.
    fewest = least_ms(*p.free().general(np.ones(len(p.weight))))[0]
    if not np.isfinite(fewest):
        return "no list of measured sizes keeps the regret bound and covers every step; raise --regret or measure more"
    if fewest > layers:
        return f"no list of at most {layers} sizes meets the constraints; the fewest sizes that do are {int(fewest)}"
    return "no list meets all budgets at once; loosen one of them"


@cache
def warm_up() -> None:
    """Compile (or load from cache) every kernel on a tiny problem, so that timings are of the solver alone."""
    sizes = np.array([1, 2], dtype=np.int64)
    ones = np.ones(2)
    tiny = Problem(sizes, ones, sizes, ones, np.full(3, np.nan), 2, sizes, ones, regret=1.0)
    p = compile_problem(tiny)
    hull_layers(p.weight, p.bucket_ms, p.price_ms, p.tail_ms, 2)
    hull_floor(p.weight, p.bucket_ms, p.tail_ms)
    value_ms, _ = general_layers(*p.general(p.price_ms), 2)
    least_ms(*p.general(p.price_ms))
    two = np.zeros((2, 3))
    label_search(*p.general(p.price_ms), two, np.ones(2), two, np.zeros(2), value_ms, 2, np.inf, 16)
