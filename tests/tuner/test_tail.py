"""Least 99th percentile against brute force over every subset of the candidates."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.tuner.test_exact import cost, problems, serve
from tuner.exact import Problem
from tuner.tail import solve_tail
from workloads.errors import Infeasible


def percentile_ms(problem: Problem, terms_ms: np.ndarray, chosen: tuple[int, ...]) -> float:
    """The least time that 99 % of the steps keep; inf where a constraint is broken."""
    if math.isinf(cost(problem, chosen)):
        return math.inf
    ms = np.array([serve(problem, chosen, int(size)) for size in problem.sizes]) + terms_ms
    order = np.argsort(ms)
    cumulated = np.cumsum(problem.weights[order])
    return float(ms[order][np.searchsorted(cumulated, 0.99 * cumulated[-1] * (1 - 1e-9))])


@settings(max_examples=300, deadline=None)
@given(
    problems(most=6),
    st.data(),
    st.sampled_from([math.inf, 0.5]),
    st.sampled_from(["plain", "exact", "twice"]),
    st.booleans(),
)
def test_no_list_of_any_length_has_a_lower_percentile(
    problem: Problem, data: st.DataObject, regret: float, rule: str, rare: bool
) -> None:
    terms_ms = np.array([data.draw(st.integers(0, 8)) / 4 for _ in problem.sizes])
    weights = (
        np.where(np.arange(len(problem.sizes)) % 2, problem.weights / 1000, problem.weights)
        if rare
        else problem.weights
    )
    problem = replace(
        problem,
        weights=weights,
        regret=regret,
        exact_only=rule == "exact",
        max_padding_factor=2.0 if rule == "twice" else None,
    )
    top = int(problem.sizes[-1])
    assume(top <= problem.candidates[-1] or not math.isnan(problem.fallback_ms[top]))
    least: dict[int, float] = {}
    for k in range(1, len(problem.candidates) + 1):
        exactly = min(
            percentile_ms(problem, terms_ms, c) for c in itertools.combinations(problem.candidates.tolist(), k)
        )
        if min(exactly, least.get(k - 1, math.inf)) < math.inf:
            least[k] = min(exactly, least.get(k - 1, math.inf))
    if not least:
        with pytest.raises(Infeasible):
            solve_tail(problem, terms_ms, 64)
        return
    front = solve_tail(problem, terms_ms, 64).front
    assert [best.list_length for best in front] == list(least)
    for best in front:
        assert best.mean_ms == pytest.approx(least[best.list_length], rel=1e-9)
        assert percentile_ms(problem, terms_ms, best.sizes) <= best.mean_ms * (1 + 1e-9)
        assert len(best.sizes) <= best.list_length
