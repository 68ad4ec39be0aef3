"""The front as `captune solve` shows it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.curves import SIZES, family
from tests.tuner.test_traffic import steps
from tuner.budget import Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile
from tuner.engines.base import AllowedSizes
from tuner.engines.registry import engine
from tuner.front import Front, best_front
from tuner.recommendation import ServingOptions
from tuner.scorecard import score_plain
from workloads.errors import BadInput, Infeasible
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


STEPS = st.dictionaries(st.integers(1, 24), st.integers(1, 9), min_size=1, max_size=6)
COSTS = st.lists(st.integers(1, 12).map(lambda n: n / 4), min_size=12, max_size=12)


@settings(max_examples=120, deadline=None)
@given(STEPS, STEPS, COSTS, COSTS, st.sampled_from([1, 2, 4]), st.integers(8, 24), st.booleans(), st.integers(14, 60))
def test_sizes_that_an_engine_admits_serve_every_family_of_its_list(
    decode: dict[int, int],
    mixed: dict[int, int],
    full_ms: list[float],
    piecewise_ms: list[float],
    multiple: int,
    largest: int,
    required: bool,
    memory_mib: int,
) -> None:
    """vLLM: one list of multiples of q feeds FULL and PIECEWISE; against every subset of the admitted sizes."""
    sizes = np.arange(2, 25, 2)
    full = family(sizes, **plain_columns(full_ms, 1.0))
    piecewise = family(sizes, **plain_columns(piecewise_ms, 2.0))
    profile = CostProfile("two", {"decode_full": full, "decode_piecewise": piecewise})
    admitted = [int(n) for n in sizes if n % multiple == 0 and n <= largest]
    allowed = AllowedSizes(largest, 24, multiple, required=(admitted[-1],) if required else ())
    budget = Budget(math.inf, max_length=3, max_memory_mib=float(memory_mib))
    first, second = (StepHistogram.of_counts({s: float(n) for s, n in of.items()}) for of in (decode, mixed))

    def cost_ms(chosen: tuple[int, ...]) -> float:
        if not set(allowed.required) <= set(chosen) or 3 * len(chosen) + 10 > memory_mib + 1e-9:
            return math.inf
        total = 0.0
        for counts, ms in ((decode, full_ms), (mixed, piecewise_ms)):
            for size, count in counts.items():
                bucket = next((n for n in chosen if n >= size), None)
                total += count * (40.0 if bucket is None else ms[bucket // 2 - 1])
        return total

    subsets = [c for k in range(1, 4) for c in itertools.combinations(admitted, k)]
    least = min(map(cost_ms, subsets))
    if math.isinf(least):
        with pytest.raises((Infeasible, BadInput)):
            best_front(
                first, profile, "decode_full", budget=budget, allowed=allowed, others={"decode_piecewise": second}
            )
        return
    front = best_front(
        first, profile, "decode_full", budget=budget, allowed=allowed, others={"decode_piecewise": second}
    )
    best = front.points[-1]
    assert cost_ms(best.sizes) == pytest.approx(least) and front.optimal
    assert best.memory_mib == pytest.approx(3 * len(best.sizes) + 10)


@pytest.mark.parametrize("known", [(), (8, 64, 512)])
def test_mixed_steps_above_every_candidate_weigh_nothing(profile: CostProfile, known: tuple[int, ...]) -> None:
    """vLLM: mixed steps of up to 8192 tokens, a list that ends at 512, and a fallback known at few sizes, or none."""
    fallback_ms = np.where(np.isin(SIZES, known), 30.0 + 0.1 * SIZES, np.nan)
    piecewise = family(SIZES, fallback_ms=fallback_ms)
    two = CostProfile("two", {"decode_full": profile.family("decode_full"), "decode_piecewise": piecewise})
    few = histogram(largest=64)

    def front(mixed: dict[int, float]) -> Front:
        others = {"decode_piecewise": StepHistogram.of_counts(mixed)}
        return best_front(few, two, "decode_full", budget=FREE, others=others)

    huge, plain = front({300: 9.0, 513: 9.0, 8192: 500.0}), front({300: 9.0})
    assert huge == replace(plain, solve_ms=huge.solve_ms)
    # What some list could serve is never left to an unknown time.
    assert known or all(point.sizes[-1] >= 300 for point in huge.points)


def plain_columns(step_ms: list[float], memory_mib: float) -> dict[str, object]:
    """Columns of a family without attention or row terms, 40 ms a step without a graph."""
    count = len(step_ms)
    return {
        "step_ms": np.array(step_ms),
        "replay_ms": np.array(step_ms),
        "fallback_ms": np.full(count, 40.0),
        "spread_ms": np.zeros(count),
        "capture_s": np.full(count, 0.1),
        "memory_mib": np.full(count, memory_mib),
        "starts": np.full(count, 2),
        "pool_mib": 5.0,
        "attention_ms_per_mtoken": 0.0,
        "row_ms": 0.0,
    }


def test_a_cap_on_the_eager_tail(profile: CostProfile) -> None:
    counts = StepHistogram.of_counts({8: 900.0, 500: 100.0})
    free = best_front(counts, profile, "decode_full", budget=Budget(math.inf, max_length=1)).points[0]
    capped = Budget(math.inf, max_length=1, max_tail_share=0.05)
    assert best_front(counts, profile, "decode_full", budget=capped).points[0].sizes[-1] >= 500
    assert best_front(counts, profile, "decode_full", budget=replace(capped, max_tail_share=0.1)).points[0] == free
    assert free.sizes[-1] < 500


def test_draft_graphs_take_the_decode_list_and_its_budget(profile: CostProfile) -> None:
    """SGLang with speculation: a size costs a target and a draft graph, and a draft step follows every target step."""
    target = profile.family("decode_full")
    draft = replace(
        target, step_ms=np.where(target.sizes == 400, 90.0, 1.0), memory_mib=np.full(len(target.sizes), 9.0)
    )
    both = CostProfile("spec", {"decode_full": target, "draft": draft})
    sglang = engine("sglang@0.5.23")
    options = sglang.options({"max_running_requests": "512", "cuda_graph_max_bs_decode": "512"})
    case = Case(sglang, options, both, ServingOptions(policy="decode"), Budget(math.inf), "step")
    counts = {400: 100, 8: 50}
    seen = case.observe(steps(counts), case.default_lists())
    assert list(case.others(seen)) == ["draft"]
    alone = replace(case, profile=profile).front(seen).at(3)
    shared = case.front(seen).at(3)
    assert 400 not in shared.sizes and shared.memory_mib > alone.memory_mib
    # Figures of a front are those of decode steps, the floor's too.
    assert case.front(seen).floor_step_ms == pytest.approx(replace(case, profile=profile).front(seen).floor_step_ms)
    tight = replace(case.budget, max_memory_mib=shared.memory_mib - 1.0)
    assert case.front(seen, tight).points[-1].memory_mib <= shared.memory_mib - 1.0


def test_a_size_that_only_ran_eagerly_is_no_bucket(profile: CostProfile) -> None:
    sizes = np.array([1, 8, 16, 32])
    unknown = np.full(4, np.nan)
    eager = np.array([14.0, 3.0, 14.2, 14.3])  # size 8 was seen without a graph only, on a quiet day
    cost = family(sizes, step_ms=np.array([6.0, 3.0, 6.4, 6.9]), replay_ms=unknown, fallback_ms=eager)
    assert cost.eager_only.tolist() == [False, True, False, False]
    made = CostProfile("log", {"decode_full": cost})
    front = best_front(StepHistogram.of_counts({3: 9.0, 8: 9.0, 30: 1.0}), made, "decode_full", budget=FREE)
    assert all(8 not in point.sizes for point in front.points) and 16 in front.points[-1].sizes
    flat = family(sizes, step_ms=eager, replay_ms=unknown, fallback_ms=eager)
    assert not flat.eager_only.any()  # graphs that bring nothing, not sizes without one
