"""Which list of the front to recommend: a short one that kept up with the default on traffic it was not fitted to.

Every list of the front is the optimum for its length, so the length is open: at most a third of the default's sizes, or
half where a third is too few. That is settled by rolling hold-outs: the traffic is cut at several points in time, a
front is fitted to what came before each cut, and its list runs the window behind it beside the engine's default. They
also tell whether the recorded steps say enough of those to come: where a short list that was fitted to them did not win
behind every cut, the list is fitted to the guarded histogram (`tuner.guard`) instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean

from tuner.case import Case
from tuner.front import Front
from tuner.guard import GUARD, Guard
from tuner.holdout import Window, split, windows
from tuner.recommendation import FrontPoint, Holdout, Scorecard
from tuner.traffic import Observed
from workloads.errors import BadInput, Infeasible
from workloads.traces.records import Traffic

NEAR_BEST_SHARE = 0.005
"""Sizes beyond the shortest list within this share of the best step time buy nothing that a user would notice."""
SLACK_SHARE = 0.005
"""Behind the cuts, a mean difference up to this share (the least noise band) buys no sizes beyond the shorter bound."""
TIE = 1e-9
"""Two ways of adding up one time may differ by this share."""
FEW_STEPS_PER_SIZE = 10
"""Neighbouring steps are alike, so a histogram with fewer steps than this per reachable size is mostly chance."""
ENOUGH_SIZES = 12
"""A third of a short default would leave nothing to choose; up to so many sizes, half of it is allowed at once."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The list, and how its length was settled.

    Attributes:
        rolling: per window, the figure of a list of that length / the default's - 1; empty where nothing could be
            rolled.
        guarded: the same of a list that was fitted to the guarded histogram.
        guard: what the recommended list was fitted with; None is the recorded steps as they are.
    """

    point: FrontPoint
    rolling: tuple[float, ...] = ()
    guarded: tuple[float, ...] = ()
    guard: Guard | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What is unusual about the fit."""
        if self.guard is None:
            return ()
        lost = max(self.rolling, default=0.0)
        why = "the recorded steps are few, or say little of those to come"
        if lost > TIE:
            why = f"behind a cut in time one fitted to the steps as recorded ran {lost:.2%} slower than the default"
        return (f"the list is fitted to a guarded histogram, which spreads every count over its neighbourhood: {why}",)


def choose(
    case: Case, traffic: Traffic, observed: Observed, front: Front, default: Scorecard, guard: Guard = GUARD
) -> Choice:
    """The list to recommend for `traffic`, which `observed` shows under the engine's default."""
    default_ms = case.cost_ms(default) + case.others_ms(case.default_lists(), observed)

    def cost_ms(point: FrontPoint) -> float:
        own_ms = point.mean_step_ms if case.objective == "step" else point.tpot_ms
        return own_ms + case.others_ms(case.lists_of(point.sizes), observed)

    plain = shortest_good(front, cost_ms, default_ms, default.list_length)
    if observed.report is not None and observed.report.overloaded:
        return Choice(plain)  # step sizes then follow the limits, whatever window is looked at
    rolled = windows(case, traffic, observed)
    third, half = _bounds(default)
    for most in (third, half):
        excess, guarded = _roll(case, rolled, most), _roll(case, rolled, most, guard)
        # Half of the default's sizes leave small gaps; only the shorter list needs a guard.
        doubted = most == third and _doubtful(observed, excess)
        for fitted, behind in (*([(guard, guarded)] if doubted else []), (None, excess)):
            point = front.at(most) if fitted is None else _fit(case, observed, most, fitted)
            if point is None or not behind or mean(behind) > SLACK_SHARE:
                continue
            if cost_ms(point) <= default_ms:
                return Choice(point, excess, guarded, fitted)
    if rolled:  # neither length kept up: the recorded steps are a poor guide at any length
        point = _fit(case, observed, half, guard)
        if point is not None and cost_ms(point) <= default_ms:
            return Choice(point, _roll(case, rolled, half), _roll(case, rolled, half, guard), guard)
    return Choice(plain, _roll(case, rolled, plain.list_length))


def _bounds(default: Scorecard) -> tuple[int, int]:
    """Most sizes of a short list, and of one where that is too few."""
    half = max(1, default.list_length // 2)
    return max(default.list_length // 3, min(half, ENOUGH_SIZES)), half


def _doubtful(observed: Observed, excess: tuple[float, ...]) -> bool:
    """Whether steps are few, or a list fitted to them as recorded did not win behind every cut."""
    few = observed.decode.total_steps < FEW_STEPS_PER_SIZE * observed.reachable
    return few or max(excess, default=-1.0) > -TIE


def rehearse(
    case: Case, traffic: Traffic, observed: Observed, share: float, chosen: Choice
) -> tuple[Holdout | None, float]:
    """Fit a list of the chosen length to the first part and score it on the rest.

    The list sees nothing of the rest: where the chosen one is guarded, windows of the first part alone say whether
    this one is. Both lists are scored on the same held-out steps: those of the engine's default.

    Returns:
        the rehearsal (None where the traffic cannot be split, or a part has no decode step) and the number of
        held-out decode steps.
    """
    parts = split(case, traffic, observed, share)
    if parts is None:
        return None, 0.0
    first, rest = parts
    length = chosen.point.list_length
    rolled = windows(case, traffic, observed, until=1.0 - share)
    doubted = chosen.guard is not None and _doubtful(first, _roll(case, rolled, length))
    point = _fit(case, first, length, chosen.guard if doubted else None)
    if point is None:
        return None, 0.0
    lists = case.lists_of(point.sizes)
    holdout = Holdout(share, lists, case.score(lists, rest), case.score(case.default_lists(), rest))
    return holdout, rest.decode.total_steps


def _fit(case: Case, observed: Observed, length: int, guard: Guard | None = None) -> FrontPoint | None:
    """The best list of at most that length; None where no such list meets the constraints."""
    try:
        return case.front(observed, replace(case.budget, max_length=length), guard).at(length)
    except (BadInput, Infeasible):
        return None


def _roll(case: Case, rolled: tuple[Window, ...], length: int, guard: Guard | None = None) -> tuple[float, ...]:
    """Fit a list of that length before every cut and run it behind: excess over the default, one value a window.

    Empty where no list of that length meets the constraints.
    """
    excess = []
    for window in rolled:
        point = _fit(case, window.before, length, guard)
        if point is None:
            return ()
        default_ms = case.cost_ms(window.default) + case.others_ms(case.default_lists(), window.behind)
        excess.append(case.figure_ms(case.lists_of(point.sizes), window.behind) / default_ms - 1.0)
    return tuple(excess)


def shortest_good(
    front: Front, cost_ms: Callable[[FrontPoint], float], default_ms: float, default_length: int
) -> FrontPoint:
    """The shortest list that is no slower than the default and near the front's best.

    Where that takes more than half of the default's sizes, the best list of half its length is taken, if it is no
    slower than the default. Where no list is as fast as the default, the fastest is returned and the verdict decides.

    Args:
        cost_ms: what a list is judged by; `default_ms` is the default's.
    """
    best_ms = cost_ms(front.points[-1])
    half = front.at(max(1, default_length // 2))
    good = [p for p in front.points if cost_ms(p) <= min(default_ms, best_ms * (1 + NEAR_BEST_SHARE))]
    if not good:
        return next(p for p in front.points if cost_ms(p) == best_ms)
    if half is not None and len(good[0].sizes) > len(half.sizes) and cost_ms(half) <= default_ms:
        return half
    return good[0]
