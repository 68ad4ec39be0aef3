"""A faster list carries more load, and the tipping point is where the simulation says so."""

from __future__ import annotations

import pytest

from tests.stores import cost_profile, request_trace
from tuner.engines.registry import engine as find_engine
from tuner.load_curve import TIPPING_PRECISION, LoadCase
from tuner.recommendation import ServingOptions
from workloads.errors import BadUsage


def case() -> LoadCase:
    engine = find_engine("vllm@0.33.0")
    options = engine.options({"max_num_seqs": "64"})
    return LoadCase.of(request_trace(600), engine, options, cost_profile(largest=64), ServingOptions("decode"))


def test_the_batch_grows_with_the_load_and_tips_where_the_report_says() -> None:
    subject = case()
    lists = {"capture": (1, 2, 4, 8, 16, 32, 64)}
    loads = subject.grid(8)
    curve = subject.curve(lists, loads)
    running = [report.mean_running for report in curve.reports]
    assert running == sorted(running) and len(running) == 8
    assert curve.tipping_load is not None
    assert subject.at(lists, curve.tipping_load).overloaded
    assert not subject.at(lists, curve.tipping_load * (1 - 2 * TIPPING_PRECISION)).overloaded


def test_a_list_that_leaves_steps_without_a_graph_tips_earlier() -> None:
    subject = case()
    loads = subject.grid(10)
    whole = subject.curve({"capture": tuple(range(1, 65))}, loads).tipping_load
    short = subject.curve({"capture": (1, 2, 4)}, loads).tipping_load
    assert whole is not None and short is not None and short < 0.8 * whole


def test_one_point_is_no_curve() -> None:
    with pytest.raises(BadUsage, match="at least 2"):
        case().grid(1)
