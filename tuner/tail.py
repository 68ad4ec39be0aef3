"""The front of least 99th percentile step time: what the slowest steps take, for every list length.

A percentile does not add up over buckets, but whether a list keeps it does: the steps slower than a threshold may weigh
at most 1 %. So thresholds are bisected, and for each the recurrence finds the least weight of slower steps for every
length at once. Every time that a step can take is a candidate for the threshold, so the answer is exact.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tuner.exact import BestList, Solution, why_none
from tuner.exact_kernels import TIE, interval_layers
from tuner.programme import Problem, Programme, compile_problem, follow
from workloads.arrays import F64
from workloads.errors import BadUsage, Infeasible

MOST_SLOWER = 0.01 * (1.0 + TIE)
"""Weight of steps that may be slower than the 99th percentile."""
PRICES_MS = (0.0, 1.0, 10.0, 100.0, 1e3, 1e5)
"""Of a step above the percentile, in mean milliseconds; the last one leaves the mean to break ties."""


@dataclass(frozen=True, slots=True)
class _Times:
    """Time of every (bucket, step size): ms float64 [N + 1, M], terms included; bucket 0 is a step without a graph."""

    ms: F64
    weight: F64  # [M], sums to 1
    below: F64  # [M, N + 1], whether a size is at most a position

    def slower(self, threshold_ms: float) -> F64:
        """Weight of the steps slower than that which bucket j serves above position i: float64 [N + 1, N + 1]."""
        slow = np.where(self.ms > threshold_ms * (1.0 + TIE), self.weight, 0.0)
        cumulated = slow @ self.below
        served: F64 = np.diagonal(cumulated)[:, None] - cumulated
        return served

    def tail(self, threshold_ms: float) -> F64:
        """The same of the steps above every position, without a graph: float64 [N + 1]."""
        slow = np.where(self.ms[0] > threshold_ms * (1.0 + TIE), self.weight, 0.0)
        above: F64 = slow.sum() - slow @ self.below
        return above


def solve_tail(problem: Problem, terms_ms: F64, max_length: int) -> Solution:
    """Lists of least 99th percentile, of at most 1..max_length sizes; `BestList.mean_ms` is that percentile.

    Of the lists that keep it, one of low mean time is taken; that the least one is found is not promised.

    Args:
        terms_ms: float64 [M], what every step of a size takes whatever is captured.

    Raises:
        BadInput: a step above every candidate has no known time without a graph.
        BadUsage: a budget on memory or capture time is set.
        Infeasible: no list of up to `max_length` sizes meets the constraints.
    """
    if problem.resources:
        raise BadUsage("the 99th percentile does not go with a budget on memory or capture time", field="objective")
    begin = time.perf_counter()
    programme = compile_problem(problem)
    search = _Search(programme, _times(programme, terms_ms), min(max_length, len(problem.candidates)))
    search.bisect()
    if not search.best:
        raise Infeasible(why_none(programme, search.layers), field="max_length")
    search.lower_means()
    front = tuple(
        BestList(k, tuple(int(programme.positions[j]) for j in chosen), float(search.levels[level]))
        for k, (level, chosen) in sorted(search.best.items())
    )
    return Solution(front, front[-1].mean_ms, True, 0.0, (time.perf_counter() - begin) * 1e3)


class _Search:
    """Per length, the lowest threshold (as an index into `levels`) known to be kept, with a list that keeps it."""

    def __init__(self, programme: Programme, times: _Times, layers: int) -> None:
        self.programme, self.times, self.layers = programme, times, layers
        self.levels = np.unique(times.ms[np.isfinite(times.ms)])
        self.best: dict[int, tuple[int, list[int]]] = {}
        self.lowest = np.zeros(layers + 1, dtype=np.int64)  # levels below are known not to be kept

    def bisect(self) -> None:
        """Close every length; one level answers for all of them."""
        if len(self.levels) == 0:
            return  # no step has a known time under any list
        self._note(len(self.levels) - 1)
        while open_lengths := [k for k in self.best if self.best[k][0] > self.lowest[k]]:
            widest = max(open_lengths, key=lambda k: self.best[k][0] - self.lowest[k])
            self._note(int(self.lowest[widest] + self.best[widest][0]) // 2)

    def _note(self, level: int) -> None:
        slower, tail = self._slower(level)
        weight, choice = interval_layers(slower, tail, self.programme.start, self.layers)
        for k in range(1, self.layers + 1):
            if weight[k, 0] > MOST_SLOWER:
                self.lowest[k] = max(self.lowest[k], level + 1)
            elif k not in self.best or level < self.best[k][0]:
                self.best[k] = (level, follow(choice, k))

    def _slower(self, level: int) -> tuple[F64, F64]:
        threshold_ms = float(self.levels[level])
        ends: F64 = np.where(np.isfinite(self.programme.tail_ms), self.times.tail(threshold_ms), np.inf)
        return self.times.slower(threshold_ms), ends

    def lower_means(self) -> None:
        """Trade slower steps below 1 % for mean time: the smallest price of a slower step that keeps the percentile."""
        mean_ms, tail_ms = self.programme.intervals_ms(), self.programme.tail_ms
        for level in {level for level, _ in self.best.values()}:
            slower, ends = self._slower(level)
            slow_end = np.where(np.isfinite(ends), ends, 0.0)  # an end that is not admitted is so in `tail_ms` too
            waiting = [k for k, (own, _) in self.best.items() if own == level]
            for price_ms in PRICES_MS:
                _, choice = interval_layers(
                    mean_ms + price_ms * slower, tail_ms + price_ms * slow_end, self.programme.start, self.layers
                )
                for k in list(waiting):
                    chosen = follow(choice, k)
                    if _weight(slower, ends, chosen) <= MOST_SLOWER:
                        self.best[k] = (level, chosen)
                        waiting.remove(k)


def _weight(slower: F64, ends: F64, chosen: list[int]) -> float:
    """Of the steps slower than the threshold under a list of positions."""
    return float(sum(slower[j, i] for i, j in pairwise([0, *chosen])) + ends[chosen[-1]]) if chosen else math.inf


def _times(programme: Programme, terms_ms: F64) -> _Times:
    problem = programme.problem
    fallback_ms = problem.fallback_ms[problem.sizes]
    ms = np.where(
        problem.sizes[None, :] >= programme.served_from[:, None], programme.bucket_ms[:, None], fallback_ms[None, :]
    )
    ms[0] = fallback_ms
    below = (problem.sizes[:, None] <= programme.positions[None, :]).astype(np.float64)
    return _Times(ms + terms_ms[None, :], problem.weights / problem.weights.sum(), below)
