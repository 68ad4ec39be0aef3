"""From a workload, a profile and a budget to the front of best lists: the domain's side of the exact solver."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.budget import Budget
from tuner.confidence import Confidence
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.dispatch import DispatchTable, FamilyDispatch
from tuner.engines.base import AllowedSizes
from tuner.exact import DEFAULT_MAX_LENGTH, BestList, Problem, Resource, floor_ms, solve
from tuner.programme import Shared
from tuner.recommendation import FrontPoint, Target
from tuner.scorecard import admitted, list_regret, times_of
from tuner.step_cost import capture_cost, step_cost, terms_ms
from tuner.tail import solve_tail
from workloads.arrays import F64, I64, Bool
from workloads.errors import BadInput
from workloads.histogram import StepHistogram


@dataclass(frozen=True, slots=True)
class Front:
    """Best list for every length that meets the constraints.

    Attributes:
        floor_step_ms: least mean step time with any number of sizes, without regret bound and budgets.
        optimal, gap, solve_ms: as in `tuner.exact.Solution`.
    """

    points: tuple[FrontPoint, ...]
    floor_step_ms: float
    optimal: bool
    gap: float
    solve_ms: float

    def at(self, list_length: int) -> FrontPoint | None:
        """The best list of at most that length; None where no such list meets the constraints."""
        within = [point for point in self.points if point.list_length <= list_length]
        return within[-1] if within else None


def problem_of(
    histogram: StepHistogram,
    cost: FamilyCost,
    *,
    budget: Budget,
    objective: Target = "step",
    allowed: AllowedSizes | None = None,
    rule: FamilyDispatch | None = None,
    reachable: int | None = None,
    wide: tuple[int, float] | None = None,
    read: FamilyCost | None = None,
    others: Sequence[tuple[StepHistogram, FamilyCost]] = (),
) -> Problem:
    """State the problem: measured, allowed sizes may be buckets; a size that the engine adds anyway always is one.

    Args:
        allowed: None admits every measured size.
        rule: the engine's dispatch rule of the family, for its refusals; None refuses nothing.
        reachable: largest size under the regret bound; None is the largest of the histogram.
        wide: largest size above that and the looser bound on the regret of sizes up to it.
        read: the same sizes with the curve that lists are chosen on (see `tuner.confidence`); None is `cost`. The
            regret bound is about `cost` in any case. Where it is given, `others` are read on such a curve of their own.
        others: other families that run in graphs of the same list, with their steps. They add their time to the
            objective and their graphs to the budgets. Steps above every candidate take the same time whatever the list,
            known or not, and are left out; one that a longer list would serve is never left to an unknown time.

    Raises:
        BadInput: the profile measured no size that may be captured, or a budget is set on a cost it does not know.
    """
    reach = reachable or histogram.largest
    keep = admitted(cost, allowed)
    required = np.array(allowed.required if allowed else (), dtype=np.int64)
    reference = cost.sizes[keep]
    sizes = np.union1d(reference, required).astype(np.int64)
    if len(sizes) == 0:
        raise BadInput("the profile measured no size that the engine would capture", field="families")
    usable = _usable((cost, *(other for _, other in others)), sizes, required, budget)
    sizes = sizes[usable]
    wide_reach, wide_regret = wide or (0, math.inf)
    every: I64 = np.arange(max(reach, histogram.largest, wide_reach) + 1, dtype=np.int64)
    return Problem(
        histogram.sizes,
        weights_of(histogram, objective),
        sizes,
        (read or cost).bucket_ms_at(sizes),
        cost.fallback_ms_at(every),
        reach,
        reference,
        cost.bucket_ms()[keep],
        regret=budget.regret,
        promised_ms=cost.bucket_ms_at(sizes),
        required=required,
        exact_only=rule is not None and rule.exact_only,
        max_padding_factor=None if rule is None else rule.max_padding_factor,
        resources=_resources((cost, *(other for _, other in others)), sizes, budget),
        most_tail_share=budget.max_tail_share,
        shared=tuple(
            _shared(steps, other if read is None else Confidence.of(other).read, sizes, objective)
            for steps, other in others
        ),
        wide_reachable=wide_reach,
        wide_regret=wide_regret,
    )


def best_front(
    histogram: StepHistogram,
    profile: CostProfile,
    family: str,
    *,
    budget: Budget,
    objective: Target = "step",
    allowed: AllowedSizes | None = None,
    rule: FamilyDispatch | None = None,
    reachable: int | None = None,
    wide: tuple[int, float] | None = None,
    guarded: StepHistogram | None = None,
    read: FamilyCost | None = None,
    others: Mapping[str, StepHistogram] | None = None,
) -> Front:
    """Solve for every length up to `budget.max_length` (64 by default, never more than the engine holds).

    Args:
        objective: p99 looks at the decode family's recorded histogram alone, not at `guarded` and `others`.
        guarded: lists are chosen for this histogram instead (see `tuner.guard`); all figures stay those of
            `histogram`, so a longer list of such a front can be slower than a shorter one.
        read: the curve that lists are chosen on, see `problem_of`; all figures stay those of the profile.
        others: steps of other families that run in graphs of the same list, which the profile measured. Step times of
            the front are those of `family`, capture time and memory those of all.

    Raises:
        BadInput, Infeasible, NotFound: see `problem_of`, `tuner.exact.solve` and `CostProfile.family`.
    """
    cost = profile.family(family)
    problem = problem_of(
        histogram,
        cost,
        budget=budget,
        objective=objective,
        allowed=allowed,
        rule=rule,
        reachable=reachable,
        wide=wide,
        read=read,
        others=[(steps, profile.family(name)) for name, steps in (others or {}).items()],
    )
    terms = terms_ms(cost, histogram)
    longest = length_bound(budget, allowed)
    if objective == "p99":
        solution = solve_tail(problem, terms, longest)
    else:
        solution = solve(_weighed(problem, guarded, objective), longest)
    by_steps = objective == "step" and guarded is None and read is None and not others
    as_read = replace(
        problem, bucket_ms=cost.bucket_ms_at(problem.candidates), weights=histogram.steps.copy(), shared=()
    )
    floor = solution.floor_ms if by_steps else floor_ms(as_read)
    points = tuple(
        _point(best, histogram, profile, (family, *(others or ())), terms, allowed, rule, problem.reachable)
        for best in solution.front
    )
    mean_terms = float(histogram.steps @ terms) / histogram.total_steps
    # Two ways of adding up one optimum may differ in the last bit; a list is never below its floor.
    floor = min(floor + mean_terms, *(point.mean_step_ms for point in points))
    return Front(points, floor, solution.optimal, solution.gap, solution.solve_ms)


def _weighed(problem: Problem, guarded: StepHistogram | None, objective: Target) -> Problem:
    if guarded is None:
        return problem
    return replace(problem, sizes=guarded.sizes, weights=weights_of(guarded, objective))


def weights_of(histogram: StepHistogram, objective: Target) -> F64:
    """What steps of every size count in the objective: float64 [M]."""
    weights = histogram.steps * histogram.sizes if objective == "token" else histogram.steps
    return weights.astype(np.float64)


def length_bound(budget: Budget, allowed: AllowedSizes | None) -> int:
    most = allowed.max_length if allowed is not None and allowed.max_length is not None else math.inf
    return int(min(budget.max_length or DEFAULT_MAX_LENGTH, most))


def _point(
    best: BestList,
    histogram: StepHistogram,
    profile: CostProfile,
    families: tuple[str, ...],
    terms: F64,
    allowed: AllowedSizes | None,
    rule: FamilyDispatch | None,
    reachable: int,
) -> FrontPoint:
    family = families[0]
    buckets = np.array(best.sizes, dtype=np.int64)
    own = FamilyDispatch(buckets) if rule is None else replace(rule, buckets=buckets, otherwise=None)
    dispatch = DispatchTable({family: own})
    step_ms = step_cost(profile, dispatch, family, histogram.sizes).ms + terms
    mean_ms, token_ms, p99_ms = times_of(step_ms, histogram)
    captured = [capture_cost(profile.family(name), best.sizes) for name in families]
    regret, _ = list_regret(profile, dispatch, family, reachable, allowed)
    return FrontPoint(
        best.list_length,
        best.sizes,
        mean_ms,
        token_ms,
        _sum(seconds for seconds, _ in captured),
        _sum(mib for _, mib in captured),
        regret,
        p99_ms,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """None where one of them is unknown."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _shared(steps: StepHistogram, cost: FamilyCost, sizes: I64, objective: Target) -> Shared:
    servable = steps.sizes <= sizes[-1]
    every: I64 = np.arange(sizes[-1] + 1, dtype=np.int64)
    weights = weights_of(steps, objective)[servable]
    return Shared(steps.sizes[servable], weights, cost.bucket_ms_at(sizes), cost.fallback_ms_at(every))


def _usable(costs: tuple[FamilyCost, ...], sizes: I64, required: I64, budget: Budget) -> Bool:
    """Candidates whose cost is known wherever a budget is set: bool [N]."""
    usable = np.ones(len(sizes), dtype=np.bool_)
    for limit, what in ((budget.max_memory_mib, "memory_mib"), (budget.max_capture_s, "capture_s")):
        if limit is None:
            continue
        known = np.ones(len(sizes), dtype=np.bool_)
        for cost in costs:
            known &= np.isfinite(_next_up(cost, getattr(cost, what), sizes))
        if not known.any() or not known[np.isin(sizes, required)].all():
            raise BadInput(
                f"a budget is set, but the profile does not know {what} of the sizes it concerns", field=what
            )
        usable &= known
    if not usable.any():
        raise BadInput("the profile knows both memory_mib and capture_s of no size", field="memory_mib")
    return usable


def _resources(costs: tuple[FamilyCost, ...], sizes: I64, budget: Budget) -> tuple[Resource, ...]:
    """What every size takes over all families that it is captured for, and what capturing takes anyway."""
    resources = []
    if budget.max_memory_mib is not None:
        used: F64 = np.sum([_next_up(cost, cost.memory_mib, sizes) for cost in costs], axis=0)
        pool_mib = sum(cost.pool_mib for cost in costs)
        resources.append(Resource("graph memory (MiB)", used, pool_mib, budget.max_memory_mib))
    if budget.max_capture_s is not None:
        used = np.sum([_next_up(cost, cost.capture_s, sizes) for cost in costs], axis=0)
        fixed_s = sum(cost.capture_fixed_s for cost in costs)
        resources.append(Resource("capture time (s)", used, fixed_s, budget.max_capture_s))
    return tuple(resources)


def _next_up(cost: FamilyCost, column: F64, sizes: I64) -> F64:
    """A size that was not measured takes what the next measured one up does."""
    return column[np.minimum(np.searchsorted(cost.sizes, sizes), len(cost.sizes) - 1)]
