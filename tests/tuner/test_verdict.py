"""The four verdicts and what moves each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tuner.curves import family
from tuner.recommendation import Holdout, Scorecard
from tuner.verdict import Judged, Thresholds, decide, noise_share
from workloads.histogram import StepHistogram
from workloads.serving.report import ServingReport

DEFAULT = Scorecard(
    lists={"decode": tuple(range(1, 53))},
    list_length=52,
    graphs=52,
    exact_hit_rate=0.5,
    hit_rate=1.0,
    fallback_rate=0.0,
    padding_waste=0.1,
    mean_step_ms=10.0,
    tpot_ms=12.0,
    p99_step_ms=18.0,
    worst_regret=0.26,
    worst_regret_size=448,
    capture_s=6.0,
    memory_mib=1000.0,
)
TUNED = replace(DEFAULT, list_length=12, graphs=12, capture_s=1.5, memory_mib=800.0, worst_regret=0.09)
REPORT = ServingReport(0.5, False, 0.0, 0.1, 0.1, 0.2, 12.0, 0.0, 50.0, 90, 4000.0, 0.9, 100, 0, 60.0)


def case(tuned: Scorecard = TUNED, **changes: object) -> Judged:
    holdout = Holdout(0.3, tuned.lists, tuned, DEFAULT)
    judged = Judged(tuned, DEFAULT, holdout, 5000.0, REPORT, REPORT, noise_share=0.005)
    return replace(judged, **changes)  # type: ignore[arg-type]


def test_fewer_graphs_at_equal_time_is_worth_a_try() -> None:
    verdict, reasons = decide(case())
    assert verdict == "try"
    assert "Graphs: 12 instead of 52 (77% less)." in reasons
    assert any("Over every reachable size the worst step is 9.0%" in reason for reason in reasons)
    assert "measure it in the engine" in reasons[-1]  # a profile alone never gives adopt


def test_a_faster_step_alone_is_worth_a_try_beyond_the_noise_only() -> None:
    same = replace(DEFAULT, mean_step_ms=9.8)
    assert decide(case(same))[0] == "try"
    verdict, reasons = decide(case(same, noise_share=0.05))
    assert verdict == "keep_default" and reasons[0].startswith("No gain: 52 graphs against 52")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean_step_ms": 10.06}, "held-out part the mean step is 10.060 ms against the default's 10.000 ms"),
        ({"tpot_ms": 12.2}, "held-out part the time per token is 12.200 ms"),
        ({"p99_step_ms": 19.0}, "held-out part the 99th percentile step is 19.000 ms against the default's 18.000 ms"),
        ({"fallback_rate": 0.001, "hit_rate": 0.999}, "0.10% of steps run without a graph, 0.00% with the default"),
    ],
)
def test_worse_on_the_held_out_part_keeps_the_default(changes: dict[str, float], message: str) -> None:
    holdout = Holdout(0.3, TUNED.lists, replace(TUNED, **changes), DEFAULT)
    verdict, reasons = decide(case(holdout=holdout))
    assert verdict == "keep_default" and any(message in reason for reason in reasons)


def test_the_objective_has_no_margin_on_the_held_out_part_and_other_figures_have_a_small_one() -> None:
    slower = Holdout(0.3, TUNED.lists, replace(TUNED, mean_step_ms=10.001), DEFAULT)
    assert decide(case(holdout=slower))[0] == "keep_default"
    within = Holdout(0.3, TUNED.lists, replace(TUNED, tpot_ms=12.04), DEFAULT)
    assert decide(case(holdout=within))[0] == "try"
    assert decide(case(holdout=within, objective="token"))[0] == "keep_default"


def test_worse_in_its_own_closed_loop_keeps_the_default() -> None:
    verdict, reasons = decide(case(closed_loop_report=replace(REPORT, tpot_mean_ms=12.5)))
    assert verdict == "keep_default" and "rises from 12.000 to 12.500 ms" in reasons[0]
    overloaded = replace(REPORT, overloaded=True, load_share=1.2)
    assert decide(case(closed_loop_report=overloaded))[0] == "keep_default"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"holdout": None}, "no order in time"),
        ({"held_out_steps": 99.0}, "Only 99 decode steps were held out"),
        ({"default_report": replace(REPORT, overloaded=True, load_share=1.4)}, "1.40 of what the engine sustains"),
        ({"tuned": replace(TUNED, mean_step_ms=None)}, "does not know the time of every step"),
    ],
)
def test_thin_evidence_is_inconclusive(changes: dict[str, object], message: str) -> None:
    verdict, reasons = decide(case(**changes))
    assert verdict == "inconclusive" and any(message in reason for reason in reasons)


def test_coverage_is_a_gain() -> None:
    uncovered = replace(DEFAULT, fallback_rate=0.3, hit_rate=0.7)
    holdout = Holdout(0.3, DEFAULT.lists, DEFAULT, uncovered)
    verdict, reasons = decide(case(DEFAULT, default=uncovered, holdout=holdout))
    assert verdict == "try" and "30.0% of steps get a graph that the default runs without one." in reasons


def test_the_noise_band_comes_from_the_spread_of_the_sizes_in_use() -> None:
    sizes = np.array([8, 64, 512])
    counts = StepHistogram.of_counts({60: 1.0, 64: 1.0})
    quiet = family(sizes, step_ms=np.full(3, 10.0), spread_ms=np.zeros(3), attention_ms_per_mtoken=0.0, row_ms=0.0)
    assert noise_share(quiet, counts, Thresholds()) == 0.005
    loud = replace(quiet, spread_ms=np.array([0.1, 0.1, 5.0]))
    assert noise_share(loud, counts, Thresholds()) == pytest.approx(2 * 2**0.5 * 0.01)


def test_less_throughput_or_goodput_in_its_own_simulation_keeps_the_default() -> None:
    slower = replace(REPORT, throughput_tokens_per_s=REPORT.throughput_tokens_per_s * 0.98)
    verdict, reasons = decide(case(closed_loop_report=slower))
    assert verdict == "keep_default" and reasons[0].startswith("Simulated with its own step times, throughput")
    before, after = replace(REPORT, goodput_requests_per_s=4.0), replace(REPORT, goodput_requests_per_s=3.0)
    verdict, reasons = decide(case(default_report=before, closed_loop_report=after))
    assert verdict == "keep_default" and "goodput (requests/s) falls from 4 to 3" in reasons[0]


def test_lists_that_moved_are_compared_on_what_they_serve() -> None:
    """A shorter mean step says nothing of a list that leaves another KV cache; more goodput does."""
    equal = replace(TUNED, graphs=DEFAULT.graphs, capture_s=DEFAULT.capture_s, memory_mib=DEFAULT.memory_mib)
    faster = replace(equal, mean_step_ms=9.0, tpot_ms=11.0)
    holdout = Holdout(0.3, TUNED.lists, faster, DEFAULT)
    assert decide(case(faster, holdout=holdout, closed_loop_report=REPORT))[0] == "try"
    assert decide(case(faster, holdout=holdout, closed_loop_report=REPORT, moved=True))[0] == "keep_default"
    before, after = replace(REPORT, goodput_requests_per_s=4.0), replace(REPORT, goodput_requests_per_s=5.0)
    moved = case(faster, holdout=holdout, default_report=before, closed_loop_report=after, moved=True)
    verdict, reasons = decide(moved)
    assert verdict == "try" and reasons[0] == "Simulated, goodput (requests/s) rises from 4 to 5."


def test_a_slower_tail_within_the_margin_is_said_as_the_price() -> None:
    holdout = Holdout(0.3, TUNED.lists, replace(TUNED, p99_step_ms=18.5), DEFAULT)
    verdict, reasons = decide(case(holdout=holdout))
    assert verdict == "try"
    assert any("the 99th percentile step rises from 18.000 ms to 18.500 ms (2.8%)" in reason for reason in reasons)
    assert not any("price" in reason for reason in decide(case(holdout=holdout, noise_share=0.03))[1])
