"""Mixture: several recordings as weights on one problem, which the exact solver answers for any weights of them.

A list's time is that of a recording's decode steps and of the steps of other families that run in graphs of the same
list (`Case.others`), per decode step or token of that recording: so weights of recordings are shares of decode steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.case import Case
from tuner.cost_profile import FamilyCost
from tuner.exact import solve
from tuner.front import problem_of, weights_of
from tuner.programme import Problem
from tuner.step_cost import terms_ms
from tuner.traffic import Observed
from workloads.arrays import F64, I64
from workloads.histogram import StepHistogram


@dataclass(frozen=True, slots=True)
class Mixture:
    """Recordings as weights on one problem.

    Attributes:
        problem: its weights, and those of its `shared`, are replaced by those of a mixture; sizes are those of all
            recordings.
        shares: float64 [T, M], share of every recording's steps (or tokens) at every size; rows add up to 1.
        terms_ms: float64 [T], what a step costs beside its bucket, whatever the list.
        others: per family of `problem.shared` float64 [T, M of that family], its steps (or tokens) at every size per
            decode step (or token) of the recording; 0 where the recording has none.
    """

    problem: Problem
    shares: F64
    terms_ms: F64
    others: tuple[F64, ...] = ()

    @classmethod
    def of(cls, case: Case, seen: Sequence[Observed]) -> Mixture:
        """On the curve that lists are chosen on (`tuner.confidence`).

        Raises:
            BadInput: see `tuner.front.problem_of`.
        """
        cost = case.profile.family(case.engine.decode_family)
        decode = [part.decode for part in seen]
        totals = [float(weights_of(histogram, case.objective).sum()) for histogram in decode]
        others = [case.others(part) for part in seen]
        families = {
            name: (case.profile.family(name), [own.get(name) for own in others])
            for name in dict.fromkeys(name for own in others for name in own)
        }
        reachable = max(part.reachable for part in seen)
        problem = problem_of(
            _pooled(decode),
            cost,
            budget=case.budget,
            allowed=case.allowed,
            rule=case.rule,
            reachable=reachable,
            wide=case.wide(reachable),
            read=case.confidence.read,
            others=[(_pooled(steps), other) for other, steps in families.values()],
        )
        shares, terms = _per_step(case, problem.sizes, cost, decode, totals)
        made = []
        for shared, (other, steps) in zip(problem.shared, families.values(), strict=True):
            weights, own_terms = _per_step(case, shared.sizes, other, steps, totals)
            made.append(weights)
            terms = terms + own_terms
        return cls(problem, shares, terms, tuple(made))

    def means_ms(self, sizes: Sequence[int]) -> F64:
        """Figure of a list per recording: float64 [T], inf where the list leaves a step of it to an unknown time."""
        problem = self.problem
        buckets = np.array(sizes, dtype=np.int64)
        at = np.searchsorted(buckets, problem.sizes)
        served = buckets[np.minimum(at, len(buckets) - 1)]
        ms = problem.bucket_ms[np.searchsorted(problem.candidates, served)]
        factor = problem.max_padding_factor
        refused = at == len(buckets)
        if problem.exact_only:
            refused |= served != problem.sizes
        elif factor is not None:
            refused |= served > factor * problem.sizes
        means: F64 = self.terms_ms + _sums(self.shares, np.where(refused, problem.fallback_ms[problem.sizes], ms))
        for family, weights in zip(problem.shared, self.others, strict=True):
            means = means + _sums(weights, family.step_ms(problem.candidates, buckets))
        return means

    def best_sizes(self, mixture: F64, length: int) -> tuple[int, ...]:
        """The best list of at most `length` sizes for weights of the recordings: float64 [T], not all 0.

        Raises:
            Infeasible: no list meets the constraints.
        """
        weights = mixture @ self.shares
        used = weights > 0
        families = zip(self.problem.shared, self.others, strict=True)
        problem = replace(
            self.problem,
            sizes=self.problem.sizes[used],
            weights=weights[used],
            shared=tuple(family.weighed(mixture @ steps) for family, steps in families),
        )
        return solve(problem, length).front[-1].sizes


def _pooled(steps: Sequence[StepHistogram | None]) -> StepHistogram:
    """Every size that a recording has; the counts are of no use."""
    sizes = np.unique(np.concatenate([own.sizes for own in steps if own is not None]))
    return StepHistogram.of_counts(dict.fromkeys(sizes.tolist(), 1.0))


def _per_step(
    case: Case, sizes: I64, cost: FamilyCost, steps: Sequence[StepHistogram | None], totals: Sequence[float]
) -> tuple[F64, F64]:
    """Weights of a family's steps at `sizes`: float64 [T, M], and the terms of these steps: float64 [T].

    Args:
        sizes: all that the recordings have, less those that are left out.
        steps: per recording, None where it has none of the family.
        totals: weight of every recording's decode steps, which both are divided by.
    """
    made, terms = np.zeros((len(steps), len(sizes))), np.zeros(len(steps))
    for t, own in enumerate(steps):
        if own is None:
            continue
        kept = np.isin(own.sizes, sizes)
        weights = weights_of(own, case.objective)[kept] / totals[t]
        made[t, np.searchsorted(sizes, own.sizes[kept])] = weights
        terms[t] = weights @ terms_ms(cost, own)[kept]
    return made, terms


def _sums(weights: F64, ms: F64) -> F64:
    """weights @ ms of every recording: float64 [T]; inf where one has a weight at an unknown time."""
    unknown = np.isnan(ms)
    sums = weights @ np.where(unknown, 0.0, ms)
    return np.where((weights[:, unknown] > 0).any(axis=1), np.inf, sums)
