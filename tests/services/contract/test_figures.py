"""The figures show what the models say."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contract.figures import front_figure, histogram_figure, outcome_of, staircase_figure
from services.contract.scorecard import FrontPointModel, ScorecardModel
from tests.stores import cost_profile
from tuner.dispatch import FamilyDispatch
from workloads.arrays import as_sizes
from workloads.errors import MissingExtra

sizes_of = st.lists(st.integers(1, 60), min_size=1, max_size=12, unique=True).map(sorted)


@given(size=st.integers(1, 80), sizes=sizes_of)
def test_colours_follow_the_dispatch_rule(size: int, sizes: list[int]) -> None:
    bucket = int(FamilyDispatch(as_sizes(sizes)).bucket_of(as_sizes([size]))[0])
    expected = "fallback" if bucket == 0 else "exact" if bucket == size else "padded"
    assert outcome_of(size, sizes) == expected


def test_every_step_is_in_exactly_one_bar() -> None:
    figure = histogram_figure({1: 10.0, 3: 30.0, 9: 60.0}, (1, 4))
    bars = {bar.name: dict(zip(bar.x, bar.y, strict=True)) for bar in figure.data if bar.type == "bar"}
    assert bars == {"exact (10.0%)": {1: 0.1}, "padded (30.0%)": {3: 0.3}, "fallback (60.0%)": {9: 0.6}}
    ticks = next(trace for trace in figure.data if trace.type == "scatter")
    assert tuple(ticks.x) == (1, 4)


def card(length: int, mean_step_ms: float | None) -> ScorecardModel:
    return ScorecardModel(
        lists={"capture": tuple(range(1, length + 1))},
        list_length=length,
        graphs=length,
        exact_hit_rate=1.0,
        hit_rate=1.0,
        fallback_rate=0.0,
        padding_waste=0.0,
        mean_step_ms=mean_step_ms,
        tpot_ms=None,
        p99_step_ms=None,
        worst_regret=None,
        capture_s=None,
        memory_mib=None,
    )


def front_point(length: int) -> FrontPointModel:
    return FrontPointModel(
        list_length=length,
        sizes=(length,),
        mean_step_ms=9.0 - length,
        tpot_ms=1.0,
        capture_s=None,
        memory_mib=None,
        worst_regret=0.0,
    )


def test_the_front_shows_the_default_beside_the_best_lists() -> None:
    front = [front_point(length) for length in (1, 2, 3)]
    figure = front_figure(front, card(51, 7.5), card(3, 6.0))
    traces = {trace.name: (tuple(trace.x), tuple(trace.y)) for trace in figure.data}
    assert traces["best list of each length"] == ((1, 2, 3), (8.0, 7.0, 6.0))
    assert traces["engine default"] == ((51,), (7.5,))
    assert traces["chosen"] == ((3,), (6.0,))
    assert len(front_figure(front, card(51, None)).data) == 1


def test_the_staircase_marks_every_inversion() -> None:
    figure = staircase_figure(cost_profile().family("decode_full"))
    marks = next(trace for trace in figure.data if trace.name.startswith("inversions"))
    assert tuple(marks.x) == (9, 18, 27, 36, 45, 54, 63)


def test_without_plotly_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("plotly"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"captune\[dashboard\]"):
        histogram_figure({1: 1.0}, (1,))
