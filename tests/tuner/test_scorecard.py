"""A scorecard against figures worked out by hand, and against a loop over single steps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.curves import family
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.dispatch import DispatchTable, FamilyDispatch
from tuner.engines.base import AllowedSizes, Effective
from tuner.scorecard import score, score_plain
from tuner.step_cost import capture_cost
from workloads.histogram import StepHistogram


def small(**changes: object) -> FamilyCost:
    plain = {"attention_ms_per_mtoken": 0.0, "row_ms": 0.0, "pool_mib": 10.0, "capture_fixed_s": 1.0}
    columns = {
        "step_ms": np.array([4.0, 9.0, 8.0]),
        "fallback_ms": np.array([10.0, 20.0, 40.0]),
        "capture_s": np.array([0.1, 0.2, 0.4]),
        "memory_mib": np.array([1.0, 2.0, 4.0]),
    }
    return family(np.array([2, 4, 8]), **{**plain, **columns, **changes})


def of(cost: FamilyCost) -> CostProfile:
    return CostProfile("small", {"decode_full": cost})


COUNTS = StepHistogram.of_counts({1: 50.0, 2: 20.0, 3: 20.0, 10: 10.0})


def test_figures_by_hand() -> None:
    card = score_plain((2, 4), {"decode_full": COUNTS}, of(small()), reachable=4)
    assert (card.exact_hit_rate, card.hit_rate, card.fallback_rate) == pytest.approx((0.2, 0.9, 0.1))
    # Slots: 50 steps of 1 in 2, 20 of 3 in 4; ten steps of 10 run unpadded.
    assert card.padding_waste == pytest.approx((50 + 20) / (70 * 2 + 20 * 4 + 100))
    # 4 ms for 1 and 2, 9 ms for 3, and the fallback of 10 continues the slope of 5 ms a row.
    assert card.mean_step_ms == pytest.approx(0.7 * 4 + 0.2 * 9 + 0.1 * 50)
    assert card.tpot_ms == pytest.approx((90 * 4 + 60 * 9 + 100 * 50) / 250)
    assert card.p99_step_ms == pytest.approx(50.0)
    assert (card.worst_regret, card.worst_regret_size) == (pytest.approx(9 / 8 - 1), 3)
    assert (card.capture_s, card.memory_mib) == (pytest.approx(1.3), pytest.approx(13.0))
    assert (card.list_length, card.graphs, card.estimated_share) == (2, 2, 0.0)


def test_sizes_between_points_are_estimates_and_counted() -> None:
    card = score_plain((3,), {"decode_full": StepHistogram.of_counts({3: 1.0, 9: 3.0})}, of(small()), reachable=3)
    assert card.mean_step_ms == pytest.approx(0.25 * 6.5 + 0.75 * 45.0)
    assert card.estimated_share == 0.25
    assert (card.capture_s, card.memory_mib) == (pytest.approx(1.15), pytest.approx(11.5))


def test_sizes_beyond_the_points_have_no_known_capture_cost() -> None:
    card = score_plain((2, 16), {"decode_full": COUNTS}, of(small()), reachable=4)
    assert card.capture_s is None and card.memory_mib is None


def test_unknown_stays_unknown() -> None:
    bare = small(fallback_ms=np.full(3, np.nan), memory_mib=np.array([1.0, np.nan, 4.0]))
    card = score_plain((2, 4), {"decode_full": COUNTS}, of(bare), reachable=8)
    assert card.mean_step_ms is None and card.tpot_ms is None and card.p99_step_ms is None
    assert card.memory_mib is None and card.capture_s == pytest.approx(1.3)
    assert (card.worst_regret, card.worst_regret_size) == (None, 5)  # sizes 5..8 run for an unknown time
    rates_only = score_plain((2, 4), {"decode_full": COUNTS}, None, reachable=8)
    assert rates_only.mean_step_ms is None and rates_only.hit_rate == pytest.approx(0.9)


def test_regret_is_measured_against_sizes_that_the_engine_admits() -> None:
    dispatch = DispatchTable.plain("decode_full", np.array([4]))
    effective = Effective({"decode_full": (4,)}, 1)
    allowed = AllowedSizes(largest=4, reachable=4)
    card = score(
        {"decode": (4,)}, effective, dispatch, {"decode_full": COUNTS}, of(small()), reachable=4, allowed=allowed
    )
    # 8 is out of reach of the engine: 4 is the best for 3, and 2 for 1.
    assert (card.worst_regret, card.worst_regret_size) == (pytest.approx(9 / 4 - 1), 1)


def test_attention_and_row_terms_count_where_the_workload_knows_them() -> None:
    kv = np.array([1e6, np.nan])
    histogram = StepHistogram("decode_full", "requests", "simulation", np.array([2, 4]), np.ones(2), kv)
    card = score_plain(
        (2, 4), {"decode_full": histogram}, of(small(attention_ms_per_mtoken=3.0, row_ms=0.5)), reachable=4
    )
    assert card.mean_step_ms == pytest.approx(((4 + 3 + 1) + 9) / 2)


def test_steps_in_another_familys_graphs_cost_what_that_family_costs() -> None:
    dispatch = DispatchTable(
        {
            "decode_full": FamilyDispatch(np.array([2]), otherwise="decode_piecewise"),
            "decode_piecewise": FamilyDispatch(np.array([2, 4])),
        }
    )
    effective = Effective({"decode_full": (2,), "decode_piecewise": (2, 4)}, 3)
    histograms = {"decode_full": StepHistogram.of_counts({4: 1.0})}

    def card(profile: CostProfile):  # type: ignore[no-untyped-def]
        return score({"capture": (2, 4)}, effective, dispatch, histograms, profile, reachable=4)

    assert card(of(small())).mean_step_ms == 9.0 and card(of(small())).estimated_share == 1.0
    both = CostProfile("both", {"decode_full": small(), "decode_piecewise": small(step_ms=np.array([5.0, 11.0, 12.0]))})
    assert card(both).mean_step_ms == 11.0 and card(both).estimated_share == 0.0
    assert card(both).capture_s == pytest.approx(1.1 + 1.3)
    nothing = np.zeros(3)
    together = replace(small(), capture_s=nothing, memory_mib=nothing, capture_fixed_s=0.0, pool_mib=0.0)
    once = CostProfile("once", {"decode_full": small(), "decode_piecewise": together})
    assert (card(once).capture_s, card(once).memory_mib) == (card(of(small())).capture_s, card(of(small())).memory_mib)
    assert capture_cost(together, (1, 64)) == (0.0, 0.0)  # sizes that it was not read at, too


@settings(max_examples=150, deadline=None)
@given(
    st.sets(st.integers(1, 12), min_size=1).map(lambda s: tuple(sorted(s))),
    st.dictionaries(st.integers(1, 14), st.integers(1, 9), min_size=1),
    st.integers(1, 14),
)
def test_every_figure_equals_a_loop_over_steps(sizes: tuple[int, ...], counts: dict[int, int], reachable: int) -> None:
    cost = small()
    histogram = StepHistogram.of_counts({s: float(n) for s, n in counts.items()})
    card = score_plain(sizes, {"decode_full": histogram}, of(cost), reachable=reachable)

    def run(step: int) -> tuple[int, float]:
        bucket = min((b for b in sizes if b >= step), default=0)
        ms = cost.bucket_ms_at(np.array([bucket])) if bucket else cost.fallback_ms_at(np.array([step]))
        return bucket, float(ms[0])

    steps = [(s, *run(s)) for s, n in sorted(counts.items()) for _ in range(n)]
    assert card.mean_step_ms == pytest.approx(sum(ms for _, _, ms in steps) / len(steps))
    assert card.tpot_ms == pytest.approx(sum(s * ms for s, _, ms in steps) / sum(s for s, _, _ in steps))
    assert card.p99_step_ms == pytest.approx(sorted(ms for *_, ms in steps)[math.ceil(0.99 * len(steps)) - 1])
    assert card.exact_hit_rate == pytest.approx(sum(s == b for s, b, _ in steps) / len(steps))
    assert card.fallback_rate == pytest.approx(sum(b == 0 for _, b, _ in steps) / len(steps))
    best = {s: min((float(ms) for p, ms in zip(cost.sizes, cost.step_ms, strict=True) if p >= s), default=math.inf)
            for s in range(1, reachable + 1)}  # fmt: skip
    worst = max((run(s)[1] / b - 1 for s, b in best.items() if b < math.inf), default=0.0)
    assert card.worst_regret == pytest.approx(max(0.0, worst))
