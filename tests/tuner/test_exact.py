"""The solver against brute force over every subset of the candidates, with costs written out from the definition."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tuner.exact import BestList, Problem, Resource, solve
from tuner.programme import Shared
from workloads.errors import BadInput, Infeasible

MS = st.integers(1, 12).map(lambda n: n / 4)  # few distinct values: many ties and inversions


def serve(problem: Problem, chosen: tuple[int, ...], size: int) -> float:
    """Time of one step, by definition; nan where unknown."""
    bucket = next((p for p in chosen if p >= size), None)
    refused = bucket is not None and (
        (problem.exact_only and bucket != size)
        or (problem.max_padding_factor is not None and bucket > problem.max_padding_factor * size)
    )
    if bucket is None or refused:
        return float(problem.fallback_ms[size])
    return float(problem.bucket_ms[list(problem.candidates).index(bucket)])


def best(problem: Problem, size: int) -> float:
    times = [
        ms
        for p, ms in zip(problem.reference_sizes, problem.reference_ms, strict=True)
        if p >= size
        and (not problem.exact_only or p == size)
        and (problem.max_padding_factor is None or p <= problem.max_padding_factor * size)
    ]
    return min(times, default=math.inf)


def cost(problem: Problem, chosen: tuple[int, ...]) -> float:
    """Weighted mean of a list; inf where a constraint is broken."""
    if not set(problem.required.tolist()) <= set(chosen):
        return math.inf
    for s in range(1, problem.reachable + 1):
        ms, least = serve(problem, chosen, s), best(problem, s)
        if problem.regret < math.inf and least < math.inf and not ms <= (1 + problem.regret) * least * (1 + 1e-9):
            return math.inf
    at = [list(problem.candidates).index(p) for p in chosen]
    for resource in problem.resources:
        if resource.fixed + resource.used[at].sum() > resource.limit + 1e-9:
            return math.inf
    times = [serve(problem, chosen, int(s)) for s in problem.sizes]
    if any(math.isnan(ms) for ms in times):
        return math.inf
    return float(np.dot(times, problem.weights) / problem.weights.sum())


def brute_front(problem: Problem, *, objective=cost) -> dict[int, tuple[float, int]]:
    """Length -> (least cost of at most that length, fewest sizes that reach it)."""
    front: dict[int, tuple[float, int]] = {}
    least = math.inf
    for k in range(1, len(problem.candidates) + 1):
        exactly = min(objective(problem, c) for c in itertools.combinations(problem.candidates.tolist(), k))
        if exactly < least * (1 - 1e-9):
            least, fewest = exactly, k
        if least < math.inf:
            front[k] = (least, fewest)
    return front


@st.composite
def problems(draw: st.DrawFn, *, most: int = 7) -> Problem:
    candidates = sorted(draw(st.sets(st.integers(1, 20), min_size=1, max_size=most)))
    g = [draw(MS) for _ in candidates]
    counts = draw(st.dictionaries(st.integers(1, 22), st.integers(1, 9), min_size=1, max_size=8))
    reachable = draw(st.integers(1, 22))
    length = max(reachable, *counts) + 1
    known = draw(st.sampled_from(["all", "none", "some"]))
    fallback = np.array([draw(MS) if known == "all" or (known == "some" and draw(st.booleans())) else math.nan
                         for _ in range(length)])  # fmt: skip
    sizes = np.array(sorted(counts))
    return Problem(
        sizes,
        np.array([float(counts[s]) for s in sorted(counts)]),
        np.array(candidates),
        np.array(g),
        fallback,
        reachable,
        np.array(candidates),
        np.array(g),
    )


def agree(problem: Problem, **options: str) -> None:
    expected = brute_front(problem)
    top = int(problem.sizes[-1])
    if top > problem.candidates[-1] and math.isnan(problem.fallback_ms[top]):
        with pytest.raises(BadInput, match="is above the last"):
            solve(problem, **options)
        return
    if not expected:
        with pytest.raises(Infeasible):
            solve(problem, **options)
        return
    solution = solve(problem, **options)
    assert solution.optimal and solution.gap == 0.0
    assert [point.list_length for point in solution.front] == list(expected)
    for point in solution.front:
        check_point(problem, point, *expected[point.list_length])


def check_point(problem: Problem, point: BestList, least: float, fewest: int) -> None:
    assert point.mean_ms == pytest.approx(least, rel=1e-9)
    assert cost(problem, point.sizes) == pytest.approx(least, rel=1e-9)  # the list itself, not only its price tag
    assert len(point.sizes) == fewest <= point.list_length


@settings(max_examples=400, deadline=None)
@given(problems())
def test_plain_front_is_the_optimum_for_any_curve_and_tail(problem: Problem) -> None:
    agree(problem)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_both_paths_give_the_same_front(problem: Problem) -> None:
    agree(problem, method="general")


@settings(max_examples=400, deadline=None)
@given(problems(), st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]))
def test_regret_bound_over_every_reachable_size(problem: Problem, regret: float) -> None:
    agree(replace(problem, regret=regret))


@settings(max_examples=300, deadline=None)
@given(problems(), st.data(), st.sampled_from([math.inf, 0.5]))
def test_required_sizes_belong_to_every_list(problem: Problem, data: st.DataObject, regret: float) -> None:
    required = data.draw(st.sets(st.sampled_from(problem.candidates.tolist()), max_size=3))
    agree(replace(problem, required=np.array(sorted(required), dtype=np.int64), regret=regret))


@settings(max_examples=300, deadline=None)
@given(problems(), st.sampled_from(["exact", 1.5, 2.0]), st.sampled_from([math.inf, 0.5, 2.0]))
def test_engine_rules_that_refuse_a_bucket(problem: Problem, rule: str | float, regret: float) -> None:
    if rule == "exact":
        agree(replace(problem, exact_only=True, regret=regret))
    else:
        agree(replace(problem, max_padding_factor=float(rule), regret=regret))


@settings(max_examples=300, deadline=None)
@given(problems(), st.data(), st.integers(1, 2), st.sampled_from([math.inf, 1.0]))
def test_hard_budgets_are_met_and_the_rest_is_optimal(
    problem: Problem, data: st.DataObject, count: int, regret: float
) -> None:
    resources = []
    for _ in range(count):
        used = np.array([data.draw(st.integers(-1, 6)) for _ in problem.candidates], dtype=np.float64)
        resources.append(
            Resource("MiB", used, float(data.draw(st.integers(0, 2))), float(data.draw(st.integers(1, 14))))
        )
    agree(replace(problem, resources=tuple(resources), regret=regret))


def test_of_equal_lists_within_a_budget_the_shortest_is_given() -> None:
    """Only size 6 frees what the second budget lacks; a multiplier finds it among all seven first."""
    candidates = np.arange(1, 8)
    frees_at_7, frees_at_6 = np.array([0.0] * 6 + [-1.0]), np.array([0.0] * 5 + [-1.0, 0.0])
    problem = Problem(
        sizes=np.array([1]),
        weights=np.array([1.0]),
        candidates=candidates,
        bucket_ms=np.full(7, 0.25),
        fallback_ms=np.full(8, np.nan),
        reachable=1,
        reference_sizes=candidates,
        reference_ms=np.full(7, 0.25),
        resources=(Resource("s", frees_at_7, 0.0, 1.0), Resource("MiB", frees_at_6, 2.0, 1.0)),
    )
    assert {point.sizes for point in solve(problem).front} == {(6,)}


@settings(max_examples=200, deadline=None)
@given(problems(), st.data())
def test_prices_per_size_are_weighed_against_time(problem: Problem, data: st.DataObject) -> None:
    price = np.array([data.draw(st.sampled_from([0.0, 0.1, 0.5])) for _ in problem.candidates])
    priced = replace(problem, price_ms=price)

    def paid(problem: Problem, chosen: tuple[int, ...]) -> float:
        return cost(problem, chosen) + sum(price[list(problem.candidates).index(p)] for p in chosen)

    expected = brute_front(priced, objective=paid)
    assume(expected)
    for point in solve(priced).front:
        assert paid(priced, point.sizes) == pytest.approx(expected[point.list_length][0], rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(problems())
def test_floor_is_the_best_of_all_lists(problem: Problem) -> None:
    expected = brute_front(problem)
    assume(expected)
    floor = expected[max(expected)][0]
    assert solve(problem).floor_ms == pytest.approx(floor, rel=1e-9)
    bounded = replace(problem, regret=0.2)
    if brute_front(bounded):
        assert solve(bounded).floor_ms == pytest.approx(floor, rel=1e-9)


@dataclass
class Case:
    problem: Problem
    g: np.ndarray


@pytest.fixture(scope="module")
def dense() -> Case:
    """512 measured sizes: a noisy staircase with hundreds of inversions."""
    rng = np.random.default_rng(3)
    sizes = np.arange(1, 513)
    g = 6 + np.floor(sizes / 64) * 1.2 + sizes * 0.005 + rng.normal(0, 0.4, 512)
    weights = rng.gamma(0.5, 1.0, 512) + 1e-6
    nan = np.full(513, np.nan)
    return Case(Problem(sizes, weights, sizes, g, nan, 512, sizes, g), g)


def test_both_paths_agree_on_a_dense_measured_curve(dense: Case) -> None:
    hull, general = solve(dense.problem), solve(dense.problem, method="general")
    assert [p.mean_ms for p in hull.front] == pytest.approx([p.mean_ms for p in general.front], rel=1e-11)
    assert [len(p.sizes) for p in hull.front] == [len(p.sizes) for p in general.front]
    assert hull.solve_ms < 50 and general.solve_ms < 400  # marks: 1 and 50 ms on a quiet core


def test_more_sizes_than_the_front_needs_are_not_used(dense: Case) -> None:
    short = np.array([10, 200, 512])
    problem = replace(dense.problem, sizes=short, weights=np.ones(3))
    assert max(len(p.sizes) for p in solve(problem).front) <= 3


def test_budget_on_a_dense_curve_is_proven(dense: Case) -> None:
    mib = np.linspace(1.0, 9.0, 512)
    problem = replace(dense.problem, resources=(Resource("MiB", mib, 20.0, 80.0),), regret=0.5)
    solution = solve(problem, 24)
    assert solution.optimal
    free = solve(replace(problem, resources=()), 24)
    for point in solution.front:
        assert 20.0 + sum(mib[s - 1] for s in point.sizes) <= 80.0 + 1e-6
        assert point.mean_ms >= free.front[point.list_length - free.front[0].list_length].mean_ms - 1e-12


def test_infeasible_says_what_would_be_feasible(dense: Case) -> None:
    with pytest.raises(Infeasible, match=r"no list of at most 2 sizes .* the fewest sizes that do are \d+"):
        solve(replace(dense.problem, regret=0.1), 2)
    small = Resource("graph memory (MiB)", np.full(512, 5.0), 10.0, 12.0)
    with pytest.raises(Infeasible, match=r"12 of graph memory .* reachable under the other constraints is 15"):
        solve(replace(dense.problem, resources=(small,)))


def test_a_size_above_the_last_point_needs_a_fallback() -> None:
    sizes = np.array([4, 8])
    problem = Problem(np.array([9]), np.ones(1), sizes, np.ones(2), np.full(10, np.nan), 9, sizes, np.ones(2))
    with pytest.raises(BadInput, match="size 9 is above the last measured point 8 and the profile has no fallback_ms"):
        solve(problem)


@st.composite
def constrained(draw: st.DrawFn) -> Problem:
    """Everything at once: regret, required sizes, an engine's rule, prices left out, budgets, a cap on the tail, a
    second family, in any combination."""
    problem = draw(problems(most=6))
    count = len(problem.candidates)
    required = draw(st.sets(st.sampled_from(problem.candidates.tolist()), max_size=2))
    rule = draw(st.sampled_from(["plain", "exact", "twice"]))
    budgets = [
        Resource("MiB", np.array([float(draw(st.integers(0, 6))) for _ in range(count)]), 1.0, float(limit))
        for limit in draw(st.lists(st.integers(3, 16), max_size=2))
    ]
    shared = tuple(draw(families(problem)) for _ in range(draw(st.integers(0, 2))))
    return replace(
        problem,
        regret=draw(st.sampled_from([math.inf, 0.2, 1.0])),
        required=np.array(sorted(required), dtype=np.int64),
        exact_only=rule == "exact",
        max_padding_factor=2.0 if rule == "twice" else None,
        resources=tuple(budgets),
        most_tail_share=draw(st.sampled_from([1.0, 1.0, 0.5, 0.0])),
        shared=shared,
    )


@st.composite
def families(draw: st.DrawFn, problem: Problem) -> Shared:
    counts = draw(st.dictionaries(st.integers(1, 22), st.integers(1, 9), max_size=5))
    known = draw(st.booleans())
    return Shared(
        np.array(sorted(counts), dtype=np.int64),
        np.array([float(counts[s]) for s in sorted(counts)]),
        np.array([draw(MS) for _ in problem.candidates]),
        np.array([draw(MS) if known else math.nan for _ in range(24)]),
    )


def whole_cost(problem: Problem, chosen: tuple[int, ...]) -> float:
    """`cost` with the tail's cap and the other families, written out."""
    total = cost(problem, chosen)
    above = problem.weights[problem.sizes > chosen[-1]].sum() / problem.weights.sum()
    if above > problem.most_tail_share + 1e-9:
        return math.inf
    for family in problem.shared:
        for size, weight in zip(family.sizes, family.weights, strict=True):
            bucket = next((p for p in chosen if p >= size), None)
            ms = (
                family.fallback_ms[size] if bucket is None else family.bucket_ms[list(problem.candidates).index(bucket)]
            )
            total += math.inf if math.isnan(ms) else weight * ms / problem.weights.sum()
    return total


@settings(max_examples=300, deadline=None)
@given(constrained())
def test_all_constraints_in_any_combination(problem: Problem) -> None:
    top = int(problem.sizes[-1])
    assume(top <= problem.candidates[-1] or not math.isnan(problem.fallback_ms[top]))
    expected = brute_front(problem, objective=whole_cost)
    if not expected:
        with pytest.raises(Infeasible):
            solve(problem)
        return
    solution = solve(problem)
    assert solution.optimal and solution.gap == 0.0
    assert [point.list_length for point in solution.front] == list(expected)
    for point in solution.front:
        least, _ = expected[point.list_length]
        assert point.mean_ms == pytest.approx(least, rel=1e-9)
        assert whole_cost(problem, point.sizes) == pytest.approx(least, rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(problems(), st.data(), st.sampled_from([math.inf, 0.5]))
def test_prices_under_budgets_and_a_regret_bound(problem: Problem, data: st.DataObject, regret: float) -> None:
    price = np.array([data.draw(st.sampled_from([0.0, 0.1, 0.5])) for _ in problem.candidates])
    used = np.array([float(data.draw(st.integers(0, 6))) for _ in problem.candidates])
    limit = float(data.draw(st.integers(3, 16)))
    priced = replace(problem, price_ms=price, regret=regret, resources=(Resource("MiB", used, 0.0, limit),))

    def paid(problem: Problem, chosen: tuple[int, ...]) -> float:
        return cost(problem, chosen) + sum(price[list(problem.candidates).index(p)] for p in chosen)

    expected = brute_front(priced, objective=paid)
    assume(expected)
    for point in solve(priced).front:
        assert paid(priced, point.sizes) == pytest.approx(expected[point.list_length][0], rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(problems(), st.sampled_from([0.1, 0.5]), st.sampled_from([0.5, 2.0]), st.integers(1, 20))
def test_a_looser_promise_above_what_the_scheduler_reaches(
    problem: Problem, regret: float, loose: float, reach: int
) -> None:
    """Sizes up to `reach` keep the tight bound, those above it the loose one."""
    wide = replace(problem, regret=regret, reachable=min(reach, problem.reachable))
    wide = replace(wide, wide_reachable=problem.reachable, wide_regret=loose)

    def promised(problem: Problem, chosen: tuple[int, ...]) -> float:
        outer = replace(problem, regret=loose, reachable=problem.wide_reachable, wide_reachable=0)
        return max(cost(problem, chosen), cost(outer, chosen))

    expected = brute_front(wide, objective=promised)
    top = int(wide.sizes[-1])
    assume(expected and (top <= wide.candidates[-1] or not math.isnan(wide.fallback_ms[top])))
    for point in solve(wide).front:
        assert point.mean_ms == pytest.approx(expected[point.list_length][0], rel=1e-9)
