"""What every size of a list does for a workload: its steps, its padding, its price, and what dropping it would cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.cost_profile import CostProfile
from tuner.dispatch import DispatchTable
from tuner.engines.base import Engine, Lists
from tuner.recommendation import Scorecard
from tuner.scorecard import score
from tuner.step_cost import capture_cost, step_cost
from tuner.traffic import Observed
from workloads.arrays import I64
from workloads.errors import BadUsage
from workloads.histogram import StepHistogram


@dataclass(frozen=True, slots=True)
class Bucket:
    """One captured size of the decode family as a workload meets it; None where the profile does not say.

    Attributes:
        steps, exact_steps: steps that run in it, and those that fill it.
        padded_slots: empty slots over all of these steps.
        step_ms: a whole step in this bucket without attention and row terms (g).
        replay_ms: the replay alone; None where the size was not measured.
        measured: whether step_ms was measured, not interpolated.
        fallback_ms: what a step of this many rows costs without a graph.
        capture_s, memory_mib: marginal price of this size.
        break_even_steps: full steps after which capturing has paid for itself against running without a graph:
            capture time / (fallback - step). None where it never does, or a term is unknown.
        next_size: the bucket that its steps would move to; None where they would run without a graph.
        saved_ms_per_step: mean time that its own steps save against that next bucket (or fallback); can be negative.
        marginal_break_even_steps: capture time / saved_ms_per_step. None where it never pays.
        without: the scorecard of the list without it, on the same steps. None where the engine adds the size by itself
            or refuses the rest.
    """

    size: int
    steps: float
    exact_steps: float
    padded_slots: float
    step_ms: float
    replay_ms: float | None
    measured: bool
    fallback_ms: float | None
    capture_s: float | None
    memory_mib: float | None
    break_even_steps: float | None
    next_size: int | None
    saved_ms_per_step: float | None
    marginal_break_even_steps: float | None
    without: Scorecard | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """A scorecard with the sizes that it adds up."""

    scorecard: Scorecard
    buckets: tuple[Bucket, ...]


def score_for(engine: Engine, options: Any, profile: CostProfile, observed: Observed, lists: Lists) -> Scorecard:
    """What `lists` do to observed steps under an engine's rules.

    Raises:
        BadUsage: the engine would not start with them.
    """
    effective = engine.effective(lists, options)
    if effective.refused is not None:
        raise BadUsage(f"{engine.spec} refuses this list: {effective.refused}", field="lists")
    return score(
        lists,
        effective,
        engine.dispatch(effective, options),
        observed.histograms,
        profile,
        reachable=observed.reachable,
        decode_family=engine.decode_family,
        allowed=engine.allowed(options),
    )


def cover(
    engine: Engine, options: Any, profile: CostProfile, observed: Observed, lists: Lists, *, drops: bool = True
) -> Coverage:
    """Score a list and take it apart by size.

    Args:
        drops: also score the list without each of its sizes. The steps stay those observed: a list whose steps get
            much slower would make larger batches, which only another simulation shows.

    Raises:
        BadUsage: the engine would not start with these lists.
    """
    card = score_for(engine, options, profile, observed, lists)
    effective = engine.effective(lists, options)
    dispatch = engine.dispatch(effective, options)
    sizes = effective.families.get(engine.decode_family, ())
    histogram = observed.histograms.get(engine.decode_family)
    rows = tuple(_bucket(size, engine.decode_family, dispatch, profile, histogram) for size in sizes)
    if not drops:
        return Coverage(card, rows)
    name = engine.list_names[0]
    dropped = {size: _without(engine, options, profile, observed, lists, name, size) for size in sizes}
    return Coverage(card, tuple(replace(row, without=dropped[row.size]) for row in rows))


def _without(
    engine: Engine, options: Any, profile: CostProfile, observed: Observed, lists: Lists, name: str, size: int
) -> Scorecard | None:
    rest = tuple(other for other in lists.get(name, ()) if other != size)
    if not rest or len(rest) == len(lists.get(name, ())):
        return None
    shorter = {**lists, name: rest}
    if engine.effective(shorter, options).refused is not None:
        return None
    return score_for(engine, options, profile, observed, shorter)


def _bucket(
    size: int, family: str, dispatch: DispatchTable, profile: CostProfile, histogram: StepHistogram | None
) -> Bucket:
    cost = profile.family(family)
    at: I64 = np.array([size], dtype=np.int64)
    measured = bool(cost.measured(at)[0])
    step_ms = float(cost.bucket_ms_at(at)[0])
    fallback_ms = _known(cost.fallback_ms_at(at)[0])
    replay_ms = _known(cost.replay_ms[int(np.searchsorted(cost.sizes, size))]) if measured else None
    fixed_s, pool_mib = capture_cost(cost, ())
    capture_s, memory_mib = capture_cost(cost, (size,))
    own_s = None if capture_s is None or fixed_s is None else capture_s - fixed_s
    own_mib = None if memory_mib is None or pool_mib is None else memory_mib - pool_mib
    steps, exact, padded = _load(size, family, dispatch, histogram)
    following, saved = _next(size, family, dispatch, profile, histogram)
    return Bucket(
        size=size,
        steps=steps,
        exact_steps=exact,
        padded_slots=padded,
        step_ms=step_ms,
        replay_ms=replay_ms,
        measured=measured,
        fallback_ms=fallback_ms,
        capture_s=own_s,
        memory_mib=own_mib,
        break_even_steps=_paid(own_s, None if fallback_ms is None else fallback_ms - step_ms),
        next_size=following,
        saved_ms_per_step=saved,
        marginal_break_even_steps=_paid(own_s, saved),
        without=None,
    )


def _load(
    size: int, family: str, dispatch: DispatchTable, histogram: StepHistogram | None
) -> tuple[float, float, float]:
    if histogram is None:
        return 0.0, 0.0, 0.0
    went = dispatch.dispatch(family, histogram.sizes)
    mine = (went.bucket == size) & ~went.elsewhere
    steps, sizes = histogram.steps[mine], histogram.sizes[mine]
    return float(steps.sum()), float(steps[sizes == size].sum()), float(steps @ (size - sizes))


def _next(
    size: int, family: str, dispatch: DispatchTable, profile: CostProfile, histogram: StepHistogram | None
) -> tuple[int | None, float | None]:
    """Where this bucket's steps would go without it, and the mean time that they would lose."""
    rule = dispatch.families[family]
    larger = rule.buckets[rule.buckets > size]
    following = int(larger[0]) if len(larger) else None
    others = _replaced(dispatch, family, rule.buckets[rule.buckets != size])
    sizes: I64 = np.array([size], dtype=np.int64)
    weights = np.ones(1)
    if histogram is not None:
        went = dispatch.dispatch(family, histogram.sizes)
        mine = (went.bucket == size) & ~went.elsewhere
        if mine.any():
            sizes, weights = histogram.sizes[mine], histogram.steps[mine]
    now = step_cost(profile, dispatch, family, sizes).ms
    then = step_cost(profile, others, family, sizes).ms
    return following, _known(float(weights @ (then - now)) / float(weights.sum()))


def _replaced(dispatch: DispatchTable, family: str, buckets: I64) -> DispatchTable:
    return DispatchTable({**dispatch.families, family: replace(dispatch.families[family], buckets=buckets)})


def _paid(capture_s: float | None, saved_ms: float | None) -> float | None:
    if capture_s is None or saved_ms is None or saved_ms <= 0:
        return None
    return 1000.0 * capture_s / saved_ms


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
