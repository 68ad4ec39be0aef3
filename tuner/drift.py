"""Drift: what a list that was chosen for other traffic costs on new traffic, and whether choosing again would pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tuner.case import Case
from tuner.engines.base import Lists
from tuner.recommendation import FrontPoint, Scorecard
from tuner.traffic import Observed
from tuner.verdict import Thresholds, noise_share
from workloads.errors import Infeasible


@dataclass(frozen=True, slots=True)
class ListDrift:
    """A present list on new traffic.

    Attributes:
        present, default: scorecards of the list and of the engine's default on the traffic that the list makes.
        best: the best list of at most that length for this traffic; where none so short keeps the constraints, the
            shortest that does.
        regret: figure of the present list / that of the best - 1 (`Case.figure_ms`).
        noise_share: a regret up to this share is noise.
        distance: share of steps whose size would have to change to make the new histogram of the one that the list was
            chosen for; None where that is not known.
    """

    present: Scorecard
    default: Scorecard
    best: FrontPoint
    regret: float
    noise_share: float
    distance: float | None

    @property
    def retune(self) -> bool:
        """Whether another list of that length would be faster by more than noise."""
        return self.regret > self.noise_share


def list_drift(
    case: Case, observed: Observed, present: Lists, chosen_for: Mapping[int, float] | None = None
) -> ListDrift:
    """Judge `present` on traffic that was observed under it.

    Args:
        chosen_for: histogram that the list was chosen for, size -> steps.

    Raises:
        BadInput, Infeasible: see `tuner.front.best_front`.
    """
    length = max(1, len(case.sizes_of(present)))
    card = case.score(present, observed)
    best = _best(case, observed, length)
    best_ms = case.figure_ms(case.lists_of(best.sizes), observed)
    cost = case.profile.family(observed.decode_family)
    return ListDrift(
        card,
        case.score(case.default_lists(), observed),
        best,
        case.figure_ms(present, observed) / best_ms - 1.0,
        noise_share(cost, observed.decode, Thresholds()),
        None if chosen_for is None else distance(chosen_for, observed.decode.counts()),
    )


def _best(case: Case, observed: Observed, length: int) -> FrontPoint:
    try:
        return case.front(observed, replace(case.budget, max_length=length)).points[-1]
    except Infeasible:
        return case.front(observed).points[0]


def distance(one: Mapping[int, float], two: Mapping[int, float]) -> float:
    """Total variation distance of two histograms, size -> steps: 0 to 1."""
    totals = sum(one.values()), sum(two.values())
    return sum(abs(one.get(s, 0.0) / totals[0] - two.get(s, 0.0) / totals[1]) for s in {*one, *two}) / 2
