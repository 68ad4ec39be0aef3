"""The curve that lists are chosen on: lucky readings are not collected, repeated inversions are."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.curves import SIZES, family, staircase
from tuner.budget import Budget
from tuner.confidence import DEFAULT_SPREAD_SHARE, Confidence
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.front import best_front
from tuner.profile_file import read_profile
from workloads.histogram import StepHistogram

FREE = Budget(regret=math.inf)
SPREAD_SHARE = 0.007


def measured(step_ms: np.ndarray, starts: int, *, spread_share: float = SPREAD_SHARE) -> FamilyCost:
    spread = np.full(len(step_ms), np.nan) if starts == 1 else spread_share * step_ms
    return family(SIZES, step_ms=step_ms, spread_ms=spread, starts=np.full(len(step_ms), starts))


def chosen(cost: FamilyCost, length: int, *, read: FamilyCost | None = None) -> tuple[int, ...]:
    """The list of that length for a workload that asks for every size alike."""
    every = StepHistogram.of_counts({size: 1.0 for size in range(1, 513)})
    profile = CostProfile("test", {"decode_full": cost})
    return best_front(every, profile, "decode_full", budget=FREE, read=read).at(length).sizes


rising = st.lists(st.floats(0.02, 0.4), min_size=len(SIZES), max_size=len(SIZES)).map(lambda d: 6.0 + np.cumsum(d))


@settings(max_examples=50, deadline=None)
@given(rising, st.integers(10, len(SIZES) - 2), st.integers(2, 5), st.floats(0.03, 0.3))
def test_one_lucky_reading_among_several_is_not_chosen(step_ms: np.ndarray, at: int, starts: int, luck: float) -> None:
    """A mean that one start pulled down: the spread of that size shows it, and the size is read as slow."""
    mean, spread = step_ms.copy(), SPREAD_SHARE * step_ms
    mean[at] *= 1 - luck
    spread[at] = luck * math.sqrt(starts) * step_ms[at]  # all but one start read the true time
    cost = replace(measured(mean, starts), spread_ms=spread)
    confidence = Confidence.of(cost)
    assert confidence.own[at] and confidence.read.step_ms[at] >= step_ms[at]
    assert int(SIZES[at]) not in chosen(cost, 16, read=confidence.read) or int(SIZES[at]) in chosen(
        replace(cost, step_ms=step_ms), 16
    )


@settings(max_examples=50, deadline=None)
@given(rising, st.integers(10, len(SIZES) - 2), st.floats(0.0, 1.6 * SPREAD_SHARE))
def test_an_inversion_of_one_start_within_the_band_wins_nothing(step_ms: np.ndarray, at: int, luck: float) -> None:
    """The reading falls below that of the size before; it counts as no faster than that size."""
    lucky = step_ms.copy()
    lucky[at] = lucky[at - 1] * (1 - luck)
    confidence = Confidence.of(measured(lucky, 1))
    assert confidence.read.step_ms[at] >= confidence.read.step_ms[at - 1] * (1 - 1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1.0, 20.0), min_size=len(SIZES), max_size=len(SIZES)), st.integers(2, 5))
def test_without_spread_nothing_changes(step_ms: list[float], starts: int) -> None:
    cost = measured(np.array(step_ms), starts, spread_share=0.0)
    confidence = Confidence.of(cost)
    assert np.array_equal(confidence.read.step_ms, cost.step_ms) and not confidence.lifted.any()
    assert chosen(cost, 12) == chosen(cost, 12, read=confidence.read)


def test_a_lucky_reading_of_another_family_is_not_chosen() -> None:
    """vLLM's mixed steps on the list of decode steps: one start of two read size 400 far too fast."""
    flat, at = np.full(len(SIZES), 6.0), int(np.searchsorted(SIZES, 400))
    mean, spread = 6.0 + 0.01 * SIZES, SPREAD_SHARE * flat
    mean[at] *= 0.85
    spread[at] = 0.15 * math.sqrt(2) * mean[at]
    decode, mixed = measured(flat, 2), replace(measured(mean, 2), spread_ms=spread)
    profile = CostProfile("test", {"decode_full": decode, "decode_piecewise": mixed})
    few = StepHistogram.of_counts({8: 1.0})
    others = {"decode_piecewise": StepHistogram.of_counts({350: 5.0, 370: 5.0, 500: 1.0})}

    def sizes(read: FamilyCost | None) -> tuple[int, ...]:
        return best_front(few, profile, "decode_full", budget=FREE, read=read, others=others).at(4).sizes

    assert 400 in sizes(None) and 400 not in sizes(Confidence.of(decode).read)


def test_one_band_for_all_sizes_changes_no_list_of_a_curve_without_small_inversions() -> None:
    step_ms = np.maximum.accumulate(staircase(SIZES))
    for starts in (1, 2, 5):
        cost = measured(step_ms, starts)
        assert chosen(cost, 12) == chosen(cost, 12, read=Confidence.of(cost).read)


def test_an_inversion_counts_where_it_repeats_or_exceeds_the_band() -> None:
    step_ms = np.maximum.accumulate(staircase(SIZES))
    at = int(np.flatnonzero(SIZES == 456)[0])
    step_ms[at:] = step_ms[at - 1] * 1.001
    far, near = step_ms.copy(), step_ms.copy()
    far[at - 1] = step_ms[at] * 1.20  # the kernel that the engine's own ladder holds at 448
    near[at - 1] = step_ms[at] * 1.008
    assert not Confidence.of(measured(far, 1)).lifted[at]
    assert Confidence.of(measured(near, 1)).lifted[at]
    quiet = replace(measured(near, 2), spread_ms=np.where(np.isin(SIZES, SIZES[at - 1 :]), 0.001, 0.1))
    assert not Confidence.of(quiet).lifted[at]  # both starts show it, however loud the other sizes are


def test_a_size_measured_once_is_read_with_a_wider_band_than_one_measured_three_times() -> None:
    step_ms = np.maximum.accumulate(staircase(SIZES))
    starts = np.full(len(SIZES), 3)
    starts[20] = 1
    confidence = Confidence.of(replace(measured(step_ms, 3), starts=starts))
    assert confidence.read.step_ms[20] > step_ms[20]
    assert np.delete(confidence.read.step_ms, 20) == pytest.approx(np.delete(step_ms, 20))


def test_a_profile_that_states_no_spread_takes_that_of_the_shipped_one(repository: Path) -> None:
    shipped = Confidence.of(read_profile(repository / "profiles" / "h200-llama-3.1-8b.json").family("decode_full"))
    assert shipped.stated and shipped.spread_share == pytest.approx(DEFAULT_SPREAD_SHARE, rel=0.01)
    silent = Confidence.of(measured(staircase(SIZES), 1))
    assert not silent.stated and silent.spread_share == DEFAULT_SPREAD_SHARE
    within = replace(measured(staircase(SIZES), 1), spread_ms=0.02 * staircase(SIZES))
    assert Confidence.of(within).spread_share == pytest.approx(0.02) and not Confidence.of(within).stated
    assert Confidence.of(replace(within, spread_ms=0.001 * staircase(SIZES))).spread_share == DEFAULT_SPREAD_SHARE
