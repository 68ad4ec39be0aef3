"""One list for several recordings, against every list there is; and drift of a present list."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.tuner.test_exact import cost, problems
from tests.tuner.test_traffic import steps
from tuner.budget import Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile
from tuner.drift import distance, list_drift
from tuner.engines.registry import engine
from tuner.programme import Problem
from tuner.recommendation import ServingOptions
from tuner.robust import Mixture, least_worst, robust_list
from workloads.errors import BadUsage, Infeasible


@pytest.fixture(scope="module")
def case(profile: CostProfile) -> Case:
    sglang = engine("sglang@0.5.23")
    options = sglang.options({"max_running_requests": "256", "cuda_graph_max_bs_decode": "256"})
    return Case(sglang, options, profile, ServingOptions(policy="decode"), Budget(), "step")


@settings(max_examples=150, deadline=None)
@given(problems(), st.data(), st.integers(2, 3), st.integers(1, 4), st.sampled_from([np.inf, 0.5, 2.0]))
def test_no_list_beats_the_bound_and_the_gap_is_what_is_missing(
    problem: Problem, data: st.DataObject, recordings: int, length: int, regret: float
) -> None:
    covered = problem.sizes <= problem.candidates[-1]
    assume(covered.any())
    problem = replace(problem, sizes=problem.sizes[covered], weights=problem.weights[covered], regret=regret)
    rows = np.array([[data.draw(st.integers(0, 9)) for _ in problem.sizes] for _ in range(recordings)])
    rows[0] += rows.sum(axis=0) == 0  # every size is somebody's, and nobody is without any
    rows[:, 0] += rows.sum(axis=1) == 0
    shares = rows / rows.sum(axis=1, keepdims=True)
    mixed = Mixture(problem, shares, np.zeros(recordings))
    ratios = {}
    for k in range(1, length + 1):
        for chosen in itertools.combinations(problem.candidates.tolist(), k):
            if cost(problem, chosen) < np.inf:
                ratios[chosen] = mixed.means_ms(chosen)
    if not ratios:
        with pytest.raises(Infeasible):
            mixed.best_sizes(np.ones(recordings), length)
        return
    least_ms = np.min(list(ratios.values()), axis=0)
    optimum = min(float((ms / least_ms).max()) for ms in ratios.values())
    # With one recording alone, a size that it never has may be left to a time that nobody knows.
    known = [mixed.best_sizes(row + 1e-9, length) for row in np.eye(recordings)]
    sizes, worst, bound = least_worst(mixed, least_ms, length, known)
    assert bound - 1e-6 <= optimum <= worst + 1e-9
    assert float((mixed.means_ms(sizes) / least_ms).max()) == pytest.approx(worst)
    assert worst <= optimum * 1.1  # how far weak duality is from the truth on lists of four sizes


def test_a_robust_list_gives_up_a_little_of_both(case: Case) -> None:
    seen = {
        "small": case.observe(steps({n: 10 for n in range(3, 60, 4)}), case.default_lists()),
        "large": case.observe(steps({n: 10 for n in range(120, 250, 7)}), case.default_lists()),
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


def test_drift_says_what_choosing_again_would_bring(case: Case) -> None:
    before, after = {n: 10 for n in range(3, 60, 4)}, {n: 10 for n in range(120, 250, 7)}
    seen = case.observe(steps(before), case.default_lists())
    lists = case.lists_of(case.front(seen).at(8).sizes)
    same = list_drift(case, seen, lists, before)
    assert same.regret == pytest.approx(0.0, abs=0.003) and same.distance == 0.0 and not same.retune
    moved = list_drift(case, case.observe(steps(after), lists), lists, before)
    assert moved.retune and moved.regret > moved.noise_share > 0 and moved.distance == pytest.approx(1.0)
    assert len(moved.best.sizes) <= 8


def test_distance_is_the_share_of_steps_to_move() -> None:
    assert distance({1: 3.0, 2: 1.0}, {1: 30.0, 2: 10.0}) == pytest.approx(0.0)
    assert distance({1: 3.0, 2: 1.0}, {2: 5.0}) == pytest.approx(0.75)
