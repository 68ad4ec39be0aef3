"""One list for several recordings, against every list there is; and drift of a present list."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.curves import SIZES, family
from tests.tuner.test_exact import MS, problems, whole_cost
from tests.tuner.test_traffic import steps, with_mixed
from tuner.budget import Budget
from tuner.case import Case
from tuner.choice import NEAR_BEST_SHARE, choose
from tuner.cost_profile import CostProfile
from tuner.drift import distance, list_drift
from tuner.engines.registry import engine
from tuner.mixture import Mixture
from tuner.programme import Problem, Shared
from tuner.recommendation import Objective, ServingOptions
from tuner.robust import least_worst, robust_list, shortest_robust
from workloads.errors import BadUsage, Infeasible


@pytest.fixture(scope="module")
def case(profile: CostProfile) -> Case:
    sglang = engine("sglang@0.5.23")
    options = sglang.options({"max_running_requests": "256", "cuda_graph_max_bs_decode": "256"})
    return Case(sglang, options, profile, ServingOptions(policy="decode"), Budget(), "step")


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    """Two or three recordings of up to two families beside the decode steps, which not all of them need to have."""
    problem = draw(problems())
    last = int(problem.candidates[-1])
    sizes = np.unique(np.minimum(problem.sizes, last))
    recordings = draw(st.integers(2, 3))
    rows = drawn(draw, recordings, len(sizes))
    rows[0] += rows.sum(axis=0) == 0  # every size is somebody's, and nobody is without any
    rows[:, 0] += rows.sum(axis=1) == 0
    totals = rows.sum(axis=1, keepdims=True)
    families, others = [], []
    for _ in range(draw(st.integers(0, 2))):
        own = np.array(sorted(draw(st.sets(st.integers(1, last), max_size=4))), dtype=np.int64)
        known = draw(st.booleans())
        bucket_ms = np.array([draw(MS) for _ in problem.candidates])
        fallback_ms = np.array([draw(MS) if known else np.nan for _ in range(last + 1)])
        families.append(Shared(own, np.ones(len(own)), bucket_ms, fallback_ms))
        others.append(drawn(draw, recordings, len(own)) / totals)
    problem = replace(
        problem,
        sizes=sizes,
        weights=np.ones(len(sizes)),
        regret=draw(st.sampled_from([np.inf, 0.5, 2.0])),
        shared=tuple(families),
    )
    terms_ms = np.array([draw(st.sampled_from([0.0, 1.5])) for _ in range(recordings)])
    return Mixture(problem, rows / totals, terms_ms, tuple(others))


def drawn(draw: st.DrawFn, recordings: int, sizes: int) -> np.ndarray:
    counts = [[draw(st.integers(0, 9)) for _ in range(sizes)] for _ in range(recordings)]
    return np.array(counts, dtype=np.float64).reshape(recordings, sizes)


def weighed(mixed: Mixture, weights: np.ndarray) -> Problem:
    """The problem of a mixture, with only the sizes that it has."""

    def used(sizes: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
        return {"sizes": sizes[counts > 0], "weights": counts[counts > 0]}

    problem = mixed.problem
    families = zip(problem.shared, mixed.others, strict=True)
    shared = tuple(replace(of, **used(of.sizes, weights @ counts)) for of, counts in families)
    return replace(problem, **used(problem.sizes, weights @ mixed.shares), shared=shared)


def subsets(problem: Problem, length: int) -> list[tuple[int, ...]]:
    return [c for k in range(1, length + 1) for c in itertools.combinations(problem.candidates.tolist(), k)]


@settings(max_examples=150, deadline=None)
@given(mixtures(), st.data(), st.integers(1, 4))
def test_the_best_list_of_a_mixture_is_that_of_all_families_per_decode_step(
    mixed: Mixture, data: st.DataObject, length: int
) -> None:
    """Against every list, with the mean of the mixture's decode steps written out; a recording may weigh nothing."""
    weights = np.array([float(data.draw(st.integers(0, 3))) for _ in mixed.shares])
    weights[0] += weights.sum() == 0
    problem = weighed(mixed, weights)
    least = min(whole_cost(problem, chosen) for chosen in subsets(problem, length))
    if np.isinf(least):
        with pytest.raises(Infeasible):
            mixed.best_sizes(weights, length)
        return
    best = mixed.best_sizes(weights, length)
    heavy = weights > 0
    mean_ms = (weights[heavy] @ (mixed.means_ms(best) - mixed.terms_ms)[heavy]) / weights.sum()
    assert mean_ms == pytest.approx(least, rel=1e-9) and whole_cost(problem, best) == pytest.approx(least, rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(mixtures(), st.integers(1, 4))
def test_no_list_beats_the_bound_and_the_gap_is_what_is_missing(mixed: Mixture, length: int) -> None:
    recordings = len(mixed.shares)
    pooled = weighed(mixed, np.ones(recordings))
    every = [chosen for chosen in subsets(pooled, length) if whole_cost(pooled, chosen) < np.inf]
    if not every:
        with pytest.raises(Infeasible):
            mixed.best_sizes(np.ones(recordings), length)
        return
    # A list for one recording alone may leave what only another has to a time that nobody knows.
    known = [mixed.best_sizes(row, length) for row in np.eye(recordings)]
    least_ms = np.array([mixed.means_ms(sizes)[t] for t, sizes in enumerate(known)])
    ratios = [mixed.means_ms(chosen) / least_ms for chosen in every]
    optimum = min(float(ratio.max()) for ratio in ratios)
    sizes, worst, bound = least_worst(mixed, least_ms, length, known)
    assert bound - 1e-6 <= optimum <= worst + 1e-9
    assert float((mixed.means_ms(sizes) / least_ms).max()) == pytest.approx(worst)
    assert worst <= optimum * 1.1  # how far weak duality is from the truth on lists of four sizes


def test_sizes_that_buy_nothing_are_left_out(case: Case) -> None:
    small, large = steps(dict.fromkeys(range(1, 20), 9)), steps(dict.fromkeys(range(90, 200, 7), 2))
    seen = {"small": case.observe(small, case.default_lists()), "large": case.observe(large, case.default_lists())}
    longest, found = robust_list(case, seen, 24), shortest_robust(case, seen, 24)
    assert len(found.sizes) < len(longest.sizes)

    def good(length: int) -> bool:
        pairs = zip(robust_list(case, seen, length).traces, longest.traces, strict=True)
        return all(
            of.figure_ms <= most.figure_ms * (1 + NEAR_BEST_SHARE)
            and of.figure_ms <= max(of.default_ms, most.figure_ms)
            for of, most in pairs
        )

    assert good(len(found.sizes)) and not any(good(length) for length in range(4, len(found.sizes)))
    assert shortest_robust(case, seen, 4).sizes == robust_list(case, seen, 4).sizes


def test_a_robust_list_gives_up_a_little_of_both(case: Case) -> None:
    seen = {
        "small": case.observe(steps(DAY), case.default_lists()),
        "large": case.observe(steps(NIGHT), case.default_lists()),
    }
    found = robust_list(case, seen, 8)
    assert len(found.sizes) <= 8 and 0 <= found.bound <= found.worst_regret and found.gap < 0.01
    assert found.size_regret is not None and found.size_regret <= 0.10 + 1e-9
    worst = max(of.regret for of in found.traces)
    for one, other in (("small", "large"), ("large", "small")):
        own = next(of.best_sizes for of in found.traces if of.name == one)
        for_other = next(of for of in found.traces if of.name == other)
        as_other = case.cost_ms(case.score(case.lists_of(own), seen[other])) / for_other.best_ms - 1
        assert worst < as_other  # a list for one recording alone does worse to the other
    with pytest.raises(BadUsage, match="two recordings or more"):
        robust_list(case, {"small": seen["small"]}, 8)


@pytest.fixture(scope="module")
def mixed_case(profile: CostProfile) -> Case:
    """vLLM with mixed steps measured: exact readings, and no time of a mixed step without a graph."""
    exact = {"spread_ms": np.zeros(len(SIZES))}
    piecewise = family(SIZES, **exact, step_ms=9.0 + 0.06 * SIZES, fallback_ms=np.full(len(SIZES), np.nan))
    both = CostProfile("two", {"decode_full": family(SIZES, **exact), "decode_piecewise": piecewise})
    vllm = engine("vllm@0.33.0")
    options = vllm.options({"max_num_seqs": "256"})
    return Case(vllm, options, both, ServingOptions(), Budget(), "step")


DAY = {n: 10 for n in range(3, 60, 4)}
NIGHT = {n: 10 for n in range(120, 250, 7)}


@pytest.mark.parametrize("objective", ["step", "token"])
def test_a_list_for_several_workloads_leaves_no_gap_where_their_mixed_steps_pay(
    mixed_case: Case, objective: Objective
) -> None:
    case = replace(mixed_case, objective=objective)
    default = case.default_lists()
    mixed = {n: 30 for n in range(262, 512, 10)}
    seen = {"day": case.observe(with_mixed(DAY, mixed), default), "night": case.observe(steps(NIGHT), default)}
    found = robust_list(case, seen, 12)
    # Readings without spread are what lists are chosen on, so the figures show the regret that was minimised.
    assert found.worst_regret == pytest.approx(max(of.regret for of in found.traces), abs=1e-12)
    assert found.bound <= found.worst_regret and all(of.figure_ms < np.inf for of in found.traces)
    only = CostProfile("one", {"decode_full": case.profile.family("decode_full")})
    blind = robust_list(replace(case, profile=only), seen, 12)

    def above(sizes: tuple[int, ...]) -> int:
        return sum(size > 256 for size in sizes)

    assert above(found.sizes) > above(blind.sizes)
    night = found.traces[1]
    assert night.figure_ms == pytest.approx(case.cost_ms(case.score(case.lists_of(found.sizes), seen["night"])))


def test_mixed_steps_above_every_list_weigh_nothing(mixed_case: Case) -> None:
    """vLLM: mixed steps of up to 8192 tokens, a list that ends at 512, and no known time of what lies above."""
    default = mixed_case.default_lists()
    within = {300: 30, 500: 10}
    plain, huge = (
        mixed_case.observe(with_mixed(DAY, counts), default) for counts in (within, within | {513: 9, 8192: 50})
    )
    assert mixed_case.front(huge).points == mixed_case.front(plain).points
    night = mixed_case.observe(with_mixed(NIGHT, {8000: 5}), default)
    found, of_plain = (robust_list(mixed_case, {"day": day, "night": night}, 12) for day in (huge, plain))
    assert (found.sizes, found.worst_regret) == (of_plain.sizes, of_plain.worst_regret)
    assert [of.figure_ms for of in found.traces] == pytest.approx([of.figure_ms for of in of_plain.traces])
    # What some list could serve is never left to a time that nobody knows.
    free = replace(mixed_case, budget=Budget(np.inf))
    some = free.observe(with_mixed(DAY, {200: 1, 8192: 50}), default)
    assert all(point.sizes[-1] >= 200 for point in free.front(some).points)
    assert robust_list(free, {"day": some, "night": night}, 3).sizes[-1] >= 200


def test_drift_says_what_choosing_again_would_bring(case: Case) -> None:
    seen = case.observe(steps(DAY), case.default_lists())
    lists = case.lists_of(case.front(seen).at(8).sizes)
    same = list_drift(case, seen, lists, DAY)
    assert same.regret == pytest.approx(0.0, abs=0.003) and same.distance == 0.0 and not same.retune
    moved = list_drift(case, case.observe(steps(NIGHT), lists), lists, DAY)
    assert moved.retune and moved.regret > moved.noise_share > 0 and moved.distance == pytest.approx(1.0)
    assert len(moved.best.sizes) <= 8


def test_a_length_that_leaves_mixed_steps_slower_is_not_good_enough(mixed_case: Case) -> None:
    """Decode steps alone are served by few sizes; each mixed step pays for the gap above them."""
    default = mixed_case.default_lists()
    seen = mixed_case.observe(with_mixed(DAY, {n: 30 for n in range(262, 512, 10)}), default)
    only = CostProfile("one", {"decode_full": mixed_case.profile.family("decode_full")})
    blind = replace(mixed_case, profile=only)
    lists = [
        mixed_case.lists_of(choose(case, seen.steps, seen, case.front(seen), case.score(default, seen)).point.sizes)
        for case in (mixed_case, blind)
    ]
    of_both, of_decode, of_default = (mixed_case.figure_ms(each, seen) for each in (*lists, default))
    assert of_both <= of_default < of_decode
    drifted = list_drift(mixed_case, seen, lists[1])
    assert drifted.regret > 0.01  # a better list of that length is one that mixed steps share
    assert list_drift(mixed_case, seen, lists[0]).regret == pytest.approx(0.0, abs=0.003)


def test_distance_is_the_share_of_steps_to_move() -> None:
    assert distance({1: 3.0, 2: 1.0}, {1: 30.0, 2: 10.0}) == pytest.approx(0.0)
    assert distance({1: 3.0, 2: 1.0}, {2: 5.0}) == pytest.approx(0.75)
