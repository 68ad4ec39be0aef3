"""Solving on the traffic that a list itself makes."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.budget import Budget
from tuner.case import Case
from tuner.closed_loop import branches_of, check, settle
from tuner.cost_profile import CostProfile
from tuner.engines.registry import engine
from tuner.recommendation import ServingOptions
from workloads.traces.records import RequestTrace


@pytest.fixture
def case(profile: CostProfile) -> Case:
    sglang = engine("sglang@0.5.23")
    options = sglang.options({"max_running_requests": "512", "cuda_graph_max_bs_decode": "512"})
    return Case(sglang, options, profile, ServingOptions(policy="decode"), Budget(), "step")


@pytest.fixture(scope="module")
def busy() -> RequestTrace:
    """About 400 requests at once: the region of the default list's bad sizes."""
    rng = np.random.default_rng(1)
    arrival_s = np.cumsum(rng.exponential(1 / 130, 3000))
    return RequestTrace(arrival_s - arrival_s[0], rng.integers(50, 300, 3000), rng.integers(150, 250, 3000))


def test_a_faster_list_makes_smaller_batches(case: Case, busy: RequestTrace) -> None:
    before = case.observe(busy, case.default_lists())
    chosen = case.lists_of(case.front(before).at(20).sizes)
    loop = check(case, busy, chosen, before)
    assert case.score(chosen, before).mean_step_ms < case.score(case.default_lists(), before).mean_step_ms
    assert loop.shift < 0 and loop.mean_sizes[1] == loop.first.decode.mean_size
    assert loop.first.report.tpot_mean_ms < before.report.tpot_mean_ms


def test_leaving_the_top_without_a_graph_makes_larger_ones(case: Case, busy: RequestTrace) -> None:
    before = case.observe(busy, case.default_lists())
    loop = check(case, busy, case.lists_of((8, 64)), before)
    assert loop.shift > 0.05


def test_it_settles_and_says_so(case: Case, busy: RequestTrace) -> None:
    before = case.observe(busy, case.default_lists())
    loop = check(case, busy, case.lists_of(case.front(before).at(12).sizes), before)
    assert loop.converged and 1 <= len(loop.sizes) <= 4
    again = case.observe(busy, case.lists_of(loop.sizes[-1]))
    assert again.decode.mean_size == pytest.approx(loop.mean_sizes[-1])


def test_several_starting_lists_end_in_fixed_points_of_their_own_traffic(case: Case, busy: RequestTrace) -> None:
    before = case.observe(busy, case.default_lists())
    chosen = case.lists_of(case.front(before).at(16).sizes)
    ends = settle(case, busy, chosen)
    assert [end.start for end in ends] == ["chosen", "every_size", "largest_only"]
    for end in ends:
        assert 0 < len(end.sizes) <= 16
        if end.outcome == "fixed":
            own = case.observe(busy, case.lists_of(end.sizes))
            assert case.front(own).at(16).sizes == end.sizes
            assert end.mean_size == pytest.approx(own.decode.mean_size)
    assert any(end.outcome == "fixed" for end in ends)


def test_a_list_without_a_top_has_a_second_branch_and_tips_earlier(case: Case, busy: RequestTrace) -> None:
    short = branches_of(case, busy, case.lists_of((8, 64, 256)))
    whole = branches_of(case, busy, case.default_lists())
    assert whole.tip_load is None or short.tip_load is None or short.tip_load <= whole.tip_load
    assert short.settled[-1] > whole.settled[0]
    simulated = case.observe(busy, case.default_lists()).decode
    assert whole.settled[0] == pytest.approx(simulated.mean_size, rel=0.25)
