"""The front as `captune solve` shows it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.tuner.curves import family
from tuner.budget import Budget
from tuner.cost_profile import CostProfile
from tuner.engines.base import AllowedSizes
from tuner.front import best_front
from tuner.scorecard import score_plain
from workloads.errors import BadInput
from workloads.histogram import StepHistogram

FREE = Budget(regret=math.inf)


def histogram(seed: int = 0, largest: int = 512) -> StepHistogram:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, 60)
    return StepHistogram.of_counts({int(s): float(n) for s, n in zip(sizes, rng.integers(1, 50, 60), strict=True)})


def test_every_entry_is_what_the_scorecard_says_of_its_list(profile: CostProfile) -> None:
    front = best_front(histogram(), profile, "decode_full", budget=Budget(), reachable=512)
    assert front.optimal and front.gap == 0.0
    for point in front.points:
        card = score_plain(point.sizes, {"decode_full": histogram()}, profile, reachable=512)
        assert point.mean_step_ms == pytest.approx(card.mean_step_ms)
        assert point.tpot_ms == pytest.approx(card.tpot_ms)
        assert point.worst_regret == pytest.approx(card.worst_regret) and point.worst_regret <= 0.10 + 1e-9
        assert (point.capture_s, point.memory_mib) == (card.capture_s, card.memory_mib)
        assert len(point.sizes) <= point.list_length
    means = [point.mean_step_ms for point in front.points]
    assert means == sorted(means, reverse=True) and means[-1] >= front.floor_step_ms


def test_a_token_counts_its_rows() -> None:
    points = np.array([2, 4, 8, 16])
    cost = family(points, step_ms=np.array([1.0, 4.0, 5.0, 9.0]), attention_ms_per_mtoken=0.0, row_ms=0.0)
    profile = CostProfile("p", {"decode_full": cost})
    counts = StepHistogram.of_counts({2: 100.0, 4: 9.0, 8: 6.0, 16: 1.0})
    for objective in ("step", "token"):
        front = best_front(counts, profile, "decode_full", budget=FREE, objective=objective)
        for point in front.points:
            within = [
                score_plain(c, {"decode_full": counts}, profile, reachable=16)
                for k in range(1, point.list_length + 1)
                for c in itertools.combinations(points.tolist(), k)
            ]
            name = "mean_step_ms" if objective == "step" else "tpot_ms"
            assert getattr(point, name) == pytest.approx(min(getattr(card, name) for card in within))


def test_only_measured_sizes_that_the_engine_captures_are_buckets(profile: CostProfile) -> None:
    allowed = AllowedSizes(largest=256, reachable=300, multiple_of=8, required=(250,), max_length=9)
    front = best_front(histogram(largest=300), profile, "decode_full", budget=FREE, allowed=allowed, reachable=300)
    measured = set(profile.family("decode_full").sizes.tolist())
    assert [p.list_length for p in front.points] == list(range(1, 10))
    for point in front.points:
        assert 250 in point.sizes  # the engine adds it, measured or not
        assert all(s % 8 == 0 and s <= 256 and s in measured for s in point.sizes if s != 250)


def test_budgets_are_kept_and_cost_time(profile: CostProfile) -> None:
    free = best_front(histogram(), profile, "decode_full", budget=Budget(), reachable=512)
    tight = Budget(max_memory_mib=360.0, max_capture_s=1.6)
    front = best_front(histogram(), profile, "decode_full", budget=tight, reachable=512)
    assert front.optimal
    for point in front.points:
        assert point.memory_mib <= 360.0 + 1e-6 and point.capture_s <= 1.6 + 1e-9
        assert point.mean_step_ms >= free.at(point.list_length).mean_step_ms - 1e-9


def test_a_size_of_unknown_memory_is_not_bought_on_a_budget() -> None:
    points = np.array([2, 4, 8])
    unknown = family(points, memory_mib=np.array([1.0, np.nan, 4.0]))
    counts = StepHistogram.of_counts({2: 1.0, 4: 5.0, 8: 1.0})
    budget = Budget(regret=math.inf, max_memory_mib=400.0)
    front = best_front(counts, CostProfile("p", {"decode_full": unknown}), "decode_full", budget=budget)
    assert front.points[-1].sizes == (2, 8)
    none = family(points, memory_mib=np.full(3, np.nan))
    with pytest.raises(BadInput, match="does not know memory_mib"):
        best_front(counts, CostProfile("p", {"decode_full": none}), "decode_full", budget=budget)


def test_without_fallback_every_step_must_be_covered() -> None:
    bare = CostProfile("p", {"decode_full": family(np.array([2, 4, 8]), fallback_ms=np.full(3, np.nan))})
    front = best_front(StepHistogram.of_counts({1: 1e6, 7: 1.0}), bare, "decode_full", budget=FREE)
    assert all(point.sizes[-1] == 8 for point in front.points)
    with pytest.raises(BadInput, match="size 9 is above the last measured point 8 and the profile has no fallback_ms"):
        best_front(StepHistogram.of_counts({9: 1.0}), bare, "decode_full", budget=FREE)
