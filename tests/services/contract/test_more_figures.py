"""Figures of profiles, sweeps, workloads and load show what the models say, with few points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.contract.figures import MOST_BARS, histogram_figure
from services.contract.figures_ladders import Rung, ladder_figure
from services.contract.figures_profile import Curve, capture_figure, compare_curves_figure, curve_figure
from services.contract.figures_sweep import dominated, history_figure, pareto_figure, timeline_figure
from services.contract.figures_workload import arrivals_figure, heat_map_figure, lengths_figure
from services.contract.profile import doubtful_sizes
from services.contract.shape import BinnedModel, HeatMapModel
from services.contract.trial import TrialModel
from tests.stores import cost_profile, request_trace
from tuner.profile_file import dump_profile
from workloads.shape import HeatMap, arrivals, lengths

points = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20)


def curve() -> Curve:
    return Curve.of(json.loads(dump_profile(cost_profile())), "decode_full", "bench")


def test_inversions_and_chosen_sizes_are_marked_where_they_are() -> None:
    figure = curve_figure(curve(), (8, 64))
    marks = {trace.name.partition(" (")[0]: tuple(trace.x) for trace in figure.data if trace.mode == "markers"}
    assert marks["inversions"] == (9, 18, 27, 36, 45, 54, 63)  # each ninth size of this profile is slower
    assert marks["captured"] == (8, 64)


def test_the_launch_bound_region_ends_where_steps_without_a_graph_grow() -> None:
    flat = [{"size": size, "step_ms": 5.0, "fallback_ms": 10.0 + max(0, size - 32) * 0.2} for size in range(1, 65)]
    bound = Curve("bench", "requests", tuple(flat)).launch_bound_to
    assert bound is not None and 34 <= bound <= 40
    assert Curve("bench", "requests", ({"size": 1, "step_ms": 5.0},)).launch_bound_to is None


def test_what_the_profiler_saw_goes_before_what_times_suggest() -> None:
    shipped = Path(__file__).parents[3] / "profiles" / "h200-qwen3-30b-a3b.json"
    assert Curve.of(json.loads(shipped.read_text()), "decode_full", "experts").launch_bound_to == 440
    seen = ({"size": 1, "launch_bound": False}, {"size": 8, "launch_bound": True})
    assert Curve("bench", "requests", ({"size": 1, "step_ms": 5.0},), seen).launch_bound_to is None


def test_one_large_price_does_not_flatten_the_others() -> None:
    uneven = tuple({"size": size, "step_ms": 1.0, "memory_mib": 2.0 if size < 9 else 500.0} for size in range(1, 10))
    assert capture_figure(Curve("x", "requests", uneven), "memory_mib", "MiB").layout.yaxis.type == "log"
    assert capture_figure(curve(), "memory_mib", "MiB").layout.yaxis.type is None
    assert len(compare_curves_figure([curve(), curve()], "row_ms").data) == 2


@given(points)
def test_a_point_is_dominated_when_another_is_at_least_as_good_and_better_in_one(found: list[tuple[int, int]]) -> None:
    def beaten(i: int) -> bool:
        x, y = found[i]
        return any(a <= x and b <= y and (a, b) != (x, y) for a, b in found)

    assert dominated([(float(x), float(y)) for x, y in found]) == [beaten(i) for i in range(len(found))]


def trial(number: int, ms: float, state: str = "complete") -> TrialModel:
    card: dict[str, Any] = {"lists": {"capture": [1]}, "list_length": 1, "graphs": 1, "exact_hit_rate": 1.0}
    card |= {"hit_rate": 1.0, "fallback_rate": 0.0, "padding_waste": 0.0, "mean_step_ms": ms}
    card |= dict.fromkeys(("tpot_ms", "p99_step_ms", "worst_regret", "capture_s", "memory_mib"))
    document = {"number": number, "source": "study", "state": state, "params": {}, "lists": {}, "values": {}}
    return TrialModel.model_validate({**document, "scorecard": card, "recorded_at": f"2026-01-01T00:00:0{number}Z"})


def test_the_best_so_far_never_rises_and_leaves_infeasible_trials_out() -> None:
    trials = [trial(0, 9.0), trial(1, 5.0, "infeasible"), trial(2, 8.0), trial(3, 8.5)]
    figure = history_figure(trials, "mean_step_ms", bound=7.5)
    lines = {trace.name: tuple(trace.y) for trace in figure.data if trace.mode == "lines"}
    assert lines == {"best so far": (9.0, 9.0, 8.0, 8.0), "exact bound on the default's steps": (7.5, 7.5)}
    assert [tuple(trace.x) for trace in timeline_figure(trials).data] == [(0.0, 2.0, 3.0), (1.0,)]


def test_groups_of_a_pareto_plot_differ_in_shape() -> None:
    groups = {"exact front": [(1.0, 2.0, "a")], "trials": [(2.0, 1.0, "b")], "chosen": [(1.0, 1.0, "c")]}
    symbols = [trace.marker.symbol for trace in pareto_figure(groups, "capture_s", "worst_regret").data]
    assert len(set(symbols)) == 3


def test_a_histogram_of_many_sizes_has_few_bars_that_hold_every_step() -> None:
    counts = {size: 2.0 for size in range(1, 5001)}
    figure = histogram_figure(counts, (1, 2, 512), log=True)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert sum(len(trace.x) for trace in bars) <= MOST_BARS + 3
    assert sum(sum(trace.y) for trace in bars) == 1.0 or abs(sum(sum(trace.y) for trace in bars) - 1.0) < 1e-9


def test_a_workload_over_time_is_drawn_from_bins() -> None:
    trace = request_trace(300)
    arrived = arrivals_figure(BinnedModel.from_domain(arrivals(trace))).data[0]
    assert len(arrived.x) == 96
    tokens = BinnedModel.from_domain(lengths(trace.input_tokens))
    assert len(lengths_figure(tokens, tokens).data) == 2
    heat = HeatMap(np.linspace(0, 7200, 4), np.array([1.0, 5.0, 9.0]), np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 4.0]]))
    drawn = heat_map_figure(HeatMapModel.from_domain(heat), "requests").data[0]
    assert [list(row) for row in drawn.z] == [[1.0, 2.0, None], [None, 3.0, 4.0]] and list(drawn.y) == [2.5, 6.5]


def test_an_inversion_within_noise_is_hollow() -> None:
    found = curve()
    doubtful = {found.sizes[i + 1] for i in found.inversions[:2]}
    figure = curve_figure(found, doubtful=doubtful)
    marks = {trace.name.partition(" (")[0]: trace for trace in figure.data if trace.mode == "markers"}
    assert len(marks["within noise"].x) == 2 and marks["within noise"].marker.symbol == "triangle-down-open"
    assert len(marks["inversions"].x) == len(found.inversions) - 2


def test_lists_are_drawn_fastest_on_top_with_the_band_in_which_a_difference_is_noise() -> None:
    rungs = [Rung("a", 9.0, 8), Rung("default", 10.0, 51, 10.5, "default"), Rung("b", 8.0, 4, None, "tuned")]
    figure = ladder_figure(rungs, 0.02)
    assert tuple(figure.layout.yaxis.categoryarray) == ("default", "a", "b")
    band = figure.layout.shapes[0]
    assert (band.x0, band.x1) == (9.8, 10.2)
    assert [tuple(trace.x) for trace in figure.data if trace.name == "on traffic kept out"] == [(10.5,)]


def test_doubtful_sizes_are_those_that_solving_lifts() -> None:
    assert doubtful_sizes(json.loads(dump_profile(cost_profile())), "decode_full") <= set(curve().sizes)


def test_a_list_far_slower_than_the_default_stands_at_the_edge_with_its_figure() -> None:
    rungs = [Rung("slow", 30.0, 3), Rung("default", 10.0, 51, None, "default")]
    (far,) = [trace for trace in ladder_figure(rungs).data if trace.name == "beyond the edge"]
    assert (far.x, far.y, far.text) == ((11.0,), ("slow",), ("30.0 ms",))
