"""Score any capture lists on any workload: rates from the dispatch rules, milliseconds from the profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tuner.cost_profile import CostProfile, FamilyCost
from tuner.dispatch import DispatchTable
from tuner.engines.base import AllowedSizes, Effective, Lists
from tuner.recommendation import Scorecard
from tuner.regret import best_by_size, worst_regret
from tuner.step_cost import capture_cost, step_cost, terms_ms
from workloads.arrays import F64, I64, Bool
from workloads.histogram import StepHistogram


def score(
    lists: Lists,
    effective: Effective,
    dispatch: DispatchTable,
    histograms: Mapping[str, StepHistogram],
    profile: CostProfile | None,
    *,
    reachable: int,
    decode_family: str = "decode_full",
    allowed: AllowedSizes | None = None,
) -> Scorecard:
    """What `lists` do to a workload.

    Rates count the steps of every family that the engine dispatches, the decode family always. Milliseconds are those
    of the decode family. `capture_s` and `memory_mib` add up the captured families that the profile measured; sizes
    between measured points are interpolated.

    Args:
        lists: as asked for; `effective` and `dispatch` are what the engine makes of them.
        profile: None leaves every measured figure None.
        reachable: regret is taken over sizes 1..reachable of the decode family, against measured sizes that `allowed`
            admits.

    Raises:
        NotFound: the profile did not measure the decode family.
    """
    exact, hit, fallback, waste = _rates(dispatch, histograms, decode_family)
    card = Scorecard(
        lists=dict(lists),
        list_length=sum(len(sizes) for sizes in lists.values()),
        graphs=effective.graphs,
        exact_hit_rate=exact,
        hit_rate=hit,
        fallback_rate=fallback,
        padding_waste=waste,
        mean_step_ms=None,
        tpot_ms=None,
        p99_step_ms=None,
        worst_regret=None,
        worst_regret_size=None,
        capture_s=None,
        memory_mib=None,
    )
    if profile is None:
        return card
    return _with_times(card, effective, dispatch, histograms, profile, reachable, decode_family, allowed)


def score_plain(
    sizes: tuple[int, ...],
    histograms: Mapping[str, StepHistogram],
    profile: CostProfile | None,
    *,
    reachable: int,
    decode_family: str = "decode_full",
) -> Scorecard:
    """Score a list without an engine: smallest size that is large enough, else fallback; no size is refused."""
    effective = Effective({decode_family: sizes}, len(sizes))
    dispatch = DispatchTable.plain(decode_family, np.array(sizes, dtype=np.int64))
    lists = {"sizes": sizes}
    return score(lists, effective, dispatch, histograms, profile, reachable=reachable, decode_family=decode_family)


def admitted(cost: FamilyCost, allowed: AllowedSizes | None) -> Bool:
    """Which sizes that were measured in a graph the engine captures as asked: bool [N]."""
    admits: Bool = ~cost.eager_only
    if allowed is not None:
        admits &= (cost.sizes <= allowed.largest) & (cost.sizes % allowed.multiple_of == 0)
    return admits


def list_regret(
    profile: CostProfile, dispatch: DispatchTable, family: str, reachable: int, allowed: AllowedSizes | None
) -> tuple[float | None, int | None]:
    """Worst regret over sizes 1..reachable and where; see `tuner.regret`."""
    cost = profile.family(family)
    keep = admitted(cost, allowed)
    rule = dispatch.families.get(family)
    best_ms = best_by_size(
        cost.sizes[keep],
        cost.bucket_ms()[keep],
        reachable,
        exact_only=rule is not None and rule.exact_only,
        max_padding_factor=None if rule is None else rule.max_padding_factor,
    )
    sizes: I64 = np.arange(1, reachable + 1, dtype=np.int64)
    step_ms = np.concatenate(([np.nan], step_cost(profile, dispatch, family, sizes).ms))
    return worst_regret(step_ms, best_ms)


def _rates(
    dispatch: DispatchTable, histograms: Mapping[str, StepHistogram], decode_family: str
) -> tuple[float, float, float, float]:
    """Shares of steps that hit exactly, hit and fall back, and padded / executed slots."""
    steps = exact = hit = padded = executed = 0.0
    for family, histogram in histograms.items():
        if family not in dispatch.families and family != decode_family:
            continue
        bucket = dispatch.dispatch(family, histogram.sizes).bucket
        runs = np.where(bucket > 0, bucket, histogram.sizes)
        steps += histogram.total_steps
        exact += float(histogram.steps[bucket == histogram.sizes].sum())
        hit += float(histogram.steps[bucket > 0].sum())
        padded += float(histogram.steps @ (runs - histogram.sizes))
        executed += float(histogram.steps @ runs)
    if steps == 0:
        return 0.0, 0.0, 0.0, 0.0
    return exact / steps, hit / steps, 1.0 - hit / steps, padded / executed


def _with_times(
    card: Scorecard,
    effective: Effective,
    dispatch: DispatchTable,
    histograms: Mapping[str, StepHistogram],
    profile: CostProfile,
    reachable: int,
    decode_family: str,
    allowed: AllowedSizes | None,
) -> Scorecard:
    regret, regret_size = list_regret(profile, dispatch, decode_family, reachable, allowed)
    capture_s, memory_mib = _captured(effective, profile, decode_family)
    card = replace(card, worst_regret=regret, worst_regret_size=regret_size, capture_s=capture_s, memory_mib=memory_mib)
    histogram = histograms.get(decode_family)
    if histogram is None:
        return card
    cost = step_cost(profile, dispatch, decode_family, histogram.sizes)
    step_ms = cost.ms + terms_ms(profile.family(decode_family), histogram)
    mean, tpot, p99 = (None, None, None) if np.isnan(step_ms).any() else times_of(step_ms, histogram)
    share = float(histogram.steps[cost.estimated].sum()) / histogram.total_steps
    return replace(card, mean_step_ms=mean, tpot_ms=tpot, p99_step_ms=p99, estimated_share=share)


def times_of(step_ms: F64, histogram: StepHistogram) -> tuple[float, float, float]:
    """(mean over steps, mean over tokens, 99th percentile over steps) of a known time per size: float64 [M]."""
    order = np.argsort(step_ms, kind="stable")
    cumulated = np.cumsum(histogram.steps[order])
    p99 = step_ms[order][np.searchsorted(cumulated, 0.99 * cumulated[-1])]
    rows = histogram.steps * histogram.sizes
    return float(histogram.steps @ step_ms) / histogram.total_steps, float(rows @ step_ms / rows.sum()), float(p99)


def _captured(effective: Effective, profile: CostProfile, decode_family: str) -> tuple[float | None, float | None]:
    seconds: float | None = 0.0
    mib: float | None = 0.0
    for family, sizes in effective.families.items():
        if family != decode_family and family not in profile.families:
            continue
        own_s, own_mib = capture_cost(profile.family(family), sizes)
        seconds = None if seconds is None or own_s is None else seconds + own_s
        mib = None if mib is None or own_mib is None else mib + own_mib
    return seconds, mib
