"""Which size to measure next: probes go where another reading could still change the best capture list.

Every size that was not read yet gets an optimistic time: the line between its measured neighbours, lowered by how far
such lines were seen to be above a reading. The best list over optimistic times bounds every list from below; the best
list of measured sizes can be had today. Once the two are within the tolerance no further probe can matter more than
that. Until then the optimistic list names its unmeasured sizes, which is what is read next.

`expected step` here is the mean of g over the weights: what a list can change of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.exact import Problem, solve
from tuner.probe_plan import ProbePlan
from workloads.arrays import F64, I64
from workloads.errors import BadUsage

LIST_LENGTH = 24
OPTIMISM_QUANTILE = 0.95  # of how far a line between neighbours was above what its middle reading turned out to be
LEAST_OPTIMISM = 0.005  # a few readings that happen to lie on a line do not make the rest of the curve one
_TWO_SIDED = 2  # a reading left out makes its line span two gaps, and curvature grows with the square of the span


@dataclass(frozen=True, slots=True)
class Advice:
    """Where the search stands.

    Attributes:
        sizes: the best list of measured sizes.
        mean_ms: its expected step.
        bound_ms: no list does better, if readings stay within the optimism.
        optimism: share by which unmeasured sizes are taken to be faster than the line between their neighbours.
        probes: what to measure next, most useful first; empty once `gap` is within the tolerance.
    """

    sizes: tuple[int, ...]
    mean_ms: float
    bound_ms: float
    optimism: float
    probes: tuple[int, ...]

    @property
    def gap(self) -> float:
        """(mean - bound) / bound, never negative."""
        return max(0.0, self.mean_ms / self.bound_ms - 1.0)


def advise(measured_ms: Mapping[int, float], plan: ProbePlan) -> Advice:
    """Best list so far, the bound, and the next probes.

    Args:
        measured_ms: {size: g in ms}; the plan's last candidate is among them, so that every step is covered.

    Raises:
        BadUsage: the end of the curve was not measured.
    """
    known = np.array(sorted(measured_ms), dtype=np.int64)
    known_ms = np.array([measured_ms[int(size)] for size in known])
    if len(known) == 0 or known[-1] < plan.candidates[-1]:
        raise BadUsage(f"the largest size, {plan.candidates[-1]}, must be measured first", field="sizes")
    optimism = optimism_of(known, known_ms)
    candidates = np.union1d(np.array(plan.candidates, dtype=np.int64), known)
    hopeful_ms = np.interp(candidates, known, known_ms) * (1.0 - optimism)
    read = np.isin(candidates, known)
    hopeful_ms[read] = known_ms
    best_ms, best = _best(plan, known, known_ms)
    bound_ms, hoped = _best(plan, candidates, hopeful_ms)
    advice = Advice(best, best_ms, min(bound_ms, best_ms), optimism, ())
    if advice.gap <= plan.tolerance:
        return advice
    unread = [size for size in hoped if size not in measured_ms]
    room = max(0, min(plan.at_once, plan.most_probes - len(known)))
    return Advice(best, best_ms, advice.bound_ms, optimism, _spread_out(unread, known, room))


def optimism_of(sizes: I64, times_ms: F64) -> float:
    """How far below the line between its neighbours a reading may lie, as a share; from the readings themselves."""
    if len(sizes) < 3:
        return 0.1
    left, right = sizes[:-2].astype(np.float64), sizes[2:].astype(np.float64)
    share = (sizes[1:-1] - left) / (right - left)
    line_ms = times_ms[:-2] * (1 - share) + times_ms[2:] * share
    below = np.maximum(0.0, 1.0 - times_ms[1:-1] / line_ms) / _TWO_SIDED
    return max(LEAST_OPTIMISM, float(np.quantile(below, OPTIMISM_QUANTILE)))


def _best(plan: ProbePlan, candidates: I64, bucket_ms: F64) -> tuple[float, tuple[int, ...]]:
    steps = np.array(plan.sizes or plan.candidates, dtype=np.int64)
    weights = np.array(plan.weights) if plan.weights else np.ones(len(steps))
    problem = Problem(
        sizes=steps,
        weights=weights,
        candidates=candidates,
        bucket_ms=bucket_ms,
        fallback_ms=np.full(int(max(steps[-1], candidates[-1])) + 1, np.nan),
        reachable=int(steps[-1]),
        reference_sizes=candidates,
        reference_ms=bucket_ms,
    )
    point = solve(problem, LIST_LENGTH).front[-1]
    return point.mean_ms, point.sizes


def _spread_out(sizes: Sequence[int], known: I64, count: int) -> tuple[int, ...]:
    """The `count` sizes farthest from what is known, by ratio: neighbours tell much the same."""
    chosen: list[int] = []
    have = np.log(known.astype(np.float64))
    left = list(sizes)
    while left and len(chosen) < count:
        far = max(left, key=lambda size: float(np.abs(have - np.log(size)).min()))
        chosen.append(far)
        left.remove(far)
        have = np.append(have, np.log(far))
    return tuple(chosen)
