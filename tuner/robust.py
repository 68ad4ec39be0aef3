"""One list for several recordings: the least worst regret over them.

The regret of a recording is what the list takes more than the best list of the same length for that recording alone.
The largest of several sums is not a sum, so the recurrence does not answer for it; but for any mixture of recordings it
does, and the best list of the mixture is a lower bound on the worst regret of every list (weak duality). Mixtures are
moved towards the recording that fares worst, the best list that comes up is kept, and the gap to the bound is stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.case import Case
from tuner.exact import solve
from tuner.front import length_bound, problem_of
from tuner.programme import Problem
from tuner.step_cost import terms_ms
from tuner.traffic import Observed
from workloads.arrays import F64
from workloads.errors import BadUsage
from workloads.histogram import StepHistogram

ROUNDS = 200
PROVEN = 1e-9
"""A gap below this share is rounding."""


@dataclass(frozen=True, slots=True)
class OfTrace:
    """One recording under the list.

    Attributes:
        figure_ms, default_ms: mean step (or token) time of the list, and of the engine's default.
        best_sizes, best_ms: the best list of that length for this recording alone.
        regret: figure_ms / best_ms - 1.
    """

    name: str
    figure_ms: float
    default_ms: float
    best_sizes: tuple[int, ...]
    best_ms: float
    regret: float


@dataclass(frozen=True, slots=True)
class Robust:
    """The list.

    Attributes:
        worst_regret: largest of the traces' regrets, on the curve that lists are chosen on (`tuner.confidence`).
        bound: no list of that length has a smaller one.
        gap: worst_regret - bound.
        size_regret: largest regret of any reachable size, as everywhere else.
    """

    sizes: tuple[int, ...]
    worst_regret: float
    bound: float
    gap: float
    size_regret: float | None
    traces: tuple[OfTrace, ...]

    @property
    def optimal(self) -> bool:
        return self.gap <= PROVEN


@dataclass(frozen=True, slots=True)
class Mixture:
    """Recordings as weights on one problem.

    Attributes:
        problem: its weights are replaced by those of a mixture; sizes are those of all recordings.
        shares: float64 [T, M], share of every recording's steps (or tokens) at every size; rows add up to 1.
        terms_ms: float64 [T], what a step costs beside its bucket, whatever the list.
    """

    problem: Problem
    shares: F64
    terms_ms: F64

    def means_ms(self, sizes: Sequence[int]) -> F64:
        """Figure of a list per recording: float64 [T]."""
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
        return self.shares @ np.where(refused, problem.fallback_ms[problem.sizes], ms) + self.terms_ms

    def best_sizes(self, mixture: F64, length: int) -> tuple[int, ...]:
        """The best list of at most `length` sizes for weights of the recordings: float64 [T], not all 0.

        Raises:
            Infeasible: no list meets the constraints.
        """
        weights = mixture @ self.shares
        used = weights > 0
        problem = replace(self.problem, sizes=self.problem.sizes[used], weights=weights[used])
        return solve(problem, length).front[-1].sizes


def robust_list(case: Case, observed: Mapping[str, Observed], length: int) -> Robust:
    """The list of at most `length` sizes whose worst regret over the recordings is least, as far as is proven.

    Args:
        observed: name -> the recording under the engine's default lists; at least two.

    Raises:
        BadUsage: fewer than two recordings.
        BadInput, Infeasible: see `tuner.front.best_front`.
    """
    if len(observed) < 2:
        raise BadUsage("a robust list needs two recordings or more", field="--also")
    mixed = _mixture(case, list(observed.values()))
    length = min(length, length_bound(case.budget, case.allowed))
    alone = [mixed.best_sizes(row, length) for row in np.eye(len(observed))]
    least_ms = np.array([mixed.means_ms(sizes)[t] for t, sizes in enumerate(alone)])
    sizes, worst, bound = least_worst(mixed, least_ms, length, alone)
    return Robust(
        sizes,
        worst - 1.0,
        bound - 1.0,
        worst - bound,
        case.score(case.lists_of(sizes), max(observed.values(), key=lambda seen: seen.reachable)).worst_regret,
        tuple(
            _of_trace(case, name, seen, sizes, best) for (name, seen), best in zip(observed.items(), alone, strict=True)
        ),
    )


def least_worst(
    mixed: Mixture, least_ms: F64, length: int, known: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], float, float]:
    """Best list found, its largest figure / least_ms over the recordings, and the least that any list can have.

    Multiplicative weights: a recording that fares worse than another gains weight, less so in every later round.
    """
    lists = {sizes: mixed.means_ms(sizes) / least_ms for sizes in known}
    bound = 1.0
    lead = np.zeros(len(least_ms))
    spread = max(float(np.ptp(ratio)) for ratio in lists.values())
    for turn in range(ROUNDS):
        best = min(float(ratio.max()) for ratio in lists.values())
        if best - bound <= PROVEN or spread == 0.0:
            break
        share = np.exp(lead - lead.max())
        share /= share.sum()
        sizes = mixed.best_sizes(share / least_ms, length)
        ratio = lists.setdefault(sizes, mixed.means_ms(sizes) / least_ms)
        bound = max(bound, float(share @ ratio))
        lead += (ratio - ratio.mean()) / spread * 4.0 / np.sqrt(turn + 1.0)
    sizes = min(lists, key=lambda sizes: float(lists[sizes].max()))
    worst = float(lists[sizes].max())
    return sizes, worst, min(bound, worst)


def _mixture(case: Case, seen: Sequence[Observed]) -> Mixture:
    every = np.unique(np.concatenate([part.decode.sizes for part in seen]))
    counts = np.zeros((len(seen), len(every)))
    cost = case.profile.family(case.engine.decode_family)
    terms = np.zeros(len(seen))
    for t, part in enumerate(seen):
        histogram = part.decode
        weights = histogram.steps * histogram.sizes if case.objective == "token" else histogram.steps
        counts[t, np.searchsorted(every, histogram.sizes)] = weights / weights.sum()
        terms[t] = weights @ terms_ms(cost, histogram) / weights.sum()
    pooled = StepHistogram.of_counts(dict(zip(every.tolist(), counts.sum(axis=0).tolist(), strict=True)))
    reachable = max(part.reachable for part in seen)
    problem = problem_of(
        pooled,
        cost,
        budget=case.budget,
        allowed=case.allowed,
        rule=case.rule,
        reachable=reachable,
        wide=case.wide(reachable),
        read=case.confidence.read,
    )
    return Mixture(problem, counts, terms)


def _of_trace(case: Case, name: str, seen: Observed, sizes: tuple[int, ...], best: tuple[int, ...]) -> OfTrace:
    figure_ms, best_ms, default_ms = (
        case.cost_ms(case.score(lists, seen))
        for lists in (case.lists_of(sizes), case.lists_of(best), case.default_lists())
    )
    return OfTrace(name, figure_ms, default_ms, best, best_ms, figure_ms / best_ms - 1.0)
