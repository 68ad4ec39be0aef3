"""A list without traffic: the shortest one that keeps the regret bound for every size, for people without a trace."""

from __future__ import annotations

import math

import numpy as np

from tuner.budget import Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile
from tuner.front import Front, best_front
from tuner.traffic import plain_family
from workloads.errors import BadUsage
from workloads.histogram import StepHistogram


def promised_front(
    profile: CostProfile, budget: Budget, case: Case | None = None, reachable: int | None = None
) -> Front:
    """Lists that keep the regret bound, the shortest first; of one length the best for equally frequent sizes.

    Args:
        case: the engine whose rules hold; None is a plain list.
        reachable: sizes 1..this keep the promise; None is what the engine can reach, or the largest measured size.

    Raises:
        BadUsage: no regret bound, so there is nothing to promise.
        Infeasible: no list keeps it; says what would.
    """
    if math.isinf(budget.regret):
        raise BadUsage(
            "without traffic a list is found by its promise; give --regret RHO, for example 0.1", field="regret"
        )
    family = plain_family(profile) if case is None else case.engine.decode_family
    reach = reachable or (int(profile.family(family).sizes[-1]) if case is None else case.allowed.reachable)
    sizes = np.arange(1, reach + 1, dtype=np.int64)
    every = StepHistogram(family, profile.family(family).unit, "given", sizes, np.ones(reach), np.full(reach, np.nan))
    if case is None:
        return best_front(every, profile, family, budget=budget, reachable=reach)
    return best_front(
        every,
        profile,
        family,
        budget=budget,
        allowed=case.allowed,
        rule=case.rule,
        reachable=reach,
        wide=case.wide(reach),
        read=case.confidence.read,
    )
