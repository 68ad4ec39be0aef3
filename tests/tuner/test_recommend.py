"""The whole decision: from a trace to a list with its evidence, and on public traffic."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tuner.test_traffic import steps
from tuner.budget import Budget
from tuner.case import Case
from tuner.choice import SLACK_SHARE, Choice, choose, rehearse
from tuner.confidence import Confidence
from tuner.cost_profile import CostProfile
from tuner.engines.registry import engine
from tuner.front import best_front
from tuner.guard import GUARD
from tuner.holdout import split, windows
from tuner.recommend import recommend
from tuner.recommendation import ServingOptions, Trial, TuneRequest
from workloads.errors import BadUsage, Infeasible
from workloads.histogram import StepHistogram
from workloads.traces.read import read
from workloads.traces.records import RequestTrace, StepTrace, Traffic

SETS = {
    "vllm@0.33.0": {"max_num_seqs": "512"},
    "sglang@0.5.23": {"max_running_requests": "512", "cuda_graph_max_bs_decode": "512"},
}


def request(traffic: Traffic, profile: CostProfile, spec: str = "sglang@0.5.23", **changes: object) -> TuneRequest:
    chosen = engine(spec)
    asked = TuneRequest(
        traffic,
        "test",
        chosen,
        chosen.options(SETS[spec]),
        profile,
        raw_options=SETS[spec],
        serving=ServingOptions(policy="decode"),
        trials=6,
    )
    return replace(asked, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trace() -> RequestTrace:
    rng = np.random.default_rng(2)
    arrival_s = np.cumsum(rng.exponential(0.02, 2000))
    return RequestTrace(arrival_s - arrival_s[0], rng.integers(50, 900, 2000), rng.integers(2, 400, 2000))


def test_the_list_is_the_optimum_for_its_length_on_the_defaults_own_traffic(
    trace: RequestTrace, profile: CostProfile
) -> None:
    answer = recommend(request(trace, profile))
    sizes = answer.lists["decode"]
    assert len(sizes) <= len(answer.default_lists["decode"]) / 2
    assert answer.scorecard.mean_step_ms <= answer.default_scorecard.mean_step_ms
    assert answer.scorecard.worst_regret <= 0.10 + 1e-9
    assert sizes in [point.sizes for point in answer.front]
    counts = answer.histogram["decode_full"]
    read = Confidence.of(profile.family("decode_full")).read
    histogram = StepHistogram.of_counts(dict(counts))
    front = best_front(histogram, profile, "decode_full", budget=Budget(), reachable=512, read=read)
    assert front.at(len(sizes)).sizes == sizes
    assert answer.verdict == "try"


def test_equal_requests_give_equal_recommendations(trace: RequestTrace, profile: CostProfile) -> None:
    def plain(trials: tuple[Trial, ...]) -> list[object]:
        return [(t.lists, t.values, t.params) for t in trials]

    first, second = recommend(request(trace, profile)), recommend(request(trace, profile))
    assert (first.lists, first.verdict, first.reasons) == (second.lists, second.verdict, second.reasons)
    assert plain(first.trials) == plain(second.trials)


def test_the_evidence_is_json_and_says_what_it_rests_on(trace: RequestTrace, profile: CostProfile) -> None:
    evidence = json.loads(json.dumps(recommend(request(trace, profile)).evidence, allow_nan=False))
    assert evidence["trace"]["digest"] == trace.digest()
    assert evidence["profile"]["basis"] == "recorded on synthetic on 2025-01-01, not measured here"
    assert evidence["serving"]["policy"] == "decode" and evidence["serving"]["reachable"] == 512
    assert evidence["closed_loop"]["converged"] is True
    assert evidence["thresholds"]["margin_share"] == 0.005
    assert evidence["confidence"]["level"] == 0.95 and evidence["confidence"]["spread_stated"] is True
    assert any("tensor parallelism" in line for line in evidence["left_out"])


def test_a_budget_that_nothing_meets_says_what_would(trace: RequestTrace, profile: CostProfile) -> None:
    with pytest.raises(Infeasible, match=r"no list of at most 2 sizes .* the fewest sizes that do are \d+"):
        recommend(request(trace, profile, budget=Budget(max_length=2)))
    with pytest.raises(Infeasible, match=r"within 100 of graph memory \(MiB\)"):
        recommend(request(trace, profile, budget=Budget(max_memory_mib=100.0)))


def test_graphs_switched_off_leave_nothing_to_tune(trace: RequestTrace, profile: CostProfile) -> None:
    vllm = engine("vllm@0.33.0")
    off = replace(request(trace, profile), engine=vllm, options=vllm.options({"enforce_eager": "true"}))
    with pytest.raises(BadUsage, match="switch CUDA graphs off"):
        recommend(off)


def test_a_histogram_has_no_time_to_hold_out(profile: CostProfile) -> None:
    answer = recommend(request(steps({10: 500, 300: 200}), profile))
    assert answer.verdict == "inconclusive" and answer.holdout is None and answer.serving is None
    assert answer.evidence["closed_loop"] is None
    assert answer.scorecard.mean_step_ms <= answer.default_scorecard.mean_step_ms


def logged(sizes: np.ndarray) -> StepTrace:
    """A log of one decode step a second."""
    count = len(sizes)
    nan = np.full(count, np.nan)
    return replace(
        steps({1: 1}),
        size=sizes,
        steps=np.ones(count, np.int64),
        family_index=np.zeros(count, np.int8),
        start_s=np.arange(float(count)),
        step_ms=nan,
        kv_tokens=nan.copy(),
        padded_size=np.zeros(count, np.int64),
        fallback=np.full(count, -1, np.int8),
        origin="census",
    )


def test_recorded_steps_in_order_are_rehearsed(profile: CostProfile) -> None:
    sizes = np.random.default_rng(0).integers(1, 400, 1000)
    log = logged(sizes)
    asked = request(log, profile)
    case = Case.of(asked)
    before, after = split(case, log, case.observe(log, case.default_lists()), 0.3)
    assert (len(before.steps), len(after.steps)) == (700, 300) and before.steps.size[0] == sizes[0]
    answer = recommend(asked)
    assert answer.holdout is not None and answer.evidence["trace"]["held_out_steps"] == 300
    assert len(answer.evidence["choice"]["rolling_holdouts"]) == 3


def test_the_hold_out_is_the_last_part_in_time_on_a_warm_engine(trace: RequestTrace, profile: CostProfile) -> None:
    case = Case.of(request(trace, profile, serving=ServingOptions(policy="decode", load=2.0)))
    whole = case.observe(trace, case.default_lists())
    before, after = split(case, trace, whole, 0.25)
    cut_s = trace.arrival_s[1500] / 2.0
    assert before.steps.start_s.max() < cut_s <= after.steps.start_s.min()
    assert before.decode.total_steps + after.decode.total_steps == whole.decode.total_steps
    assert after.steps.size[0] > 5  # requests from before the cut are still running
    assert split(case, trace, whole, 0.0) is None and split(case, trace, whole, 1.0) is None


def test_a_list_is_chosen_by_windows_that_it_was_not_fitted_to(trace: RequestTrace, profile: CostProfile) -> None:
    case = Case.of(request(trace, profile))
    whole = case.observe(trace, case.default_lists())
    rolled = windows(case, trace, whole)
    assert [w.before.decode.total_steps < whole.decode.total_steps for w in rolled] == [True] * 3
    ends = [w.behind.steps.start_s.max() for w in rolled]
    assert ends == sorted(ends)
    chosen = choose(case, trace, whole, case.front(whole), case.score(case.default_lists(), whole))
    assert len(chosen.point.sizes) <= len(case.sizes_of(case.default_lists())) / 3
    assert len(chosen.rolling) == len(chosen.guarded) == 3 and sum(chosen.rolling) / 3 <= SLACK_SHARE


def test_traffic_that_moves_on_or_is_short_gets_a_guarded_list(profile: CostProfile) -> None:
    rng = np.random.default_rng(0)
    still = rng.integers(60, 80, 6000)
    moving = still + np.arange(6000) // 96
    guards = {}
    for name, sizes in (("still", still), ("moving", moving), ("short", still[:1000])):
        case = Case.of(request(logged(sizes), profile))
        seen = case.observe(logged(sizes), case.default_lists())
        chosen = choose(case, logged(sizes), seen, case.front(seen), case.score(case.default_lists(), seen))
        guards[name] = chosen.guard
        assert chosen.rolling and (max(chosen.rolling) > 0) == (name == "moving")
        assert bool(chosen.notes) == (name != "still")
    assert guards == {"still": None, "moving": GUARD, "short": GUARD}


def test_the_rehearsal_knows_nothing_of_the_part_that_it_runs(profile: CostProfile) -> None:
    sizes = np.random.default_rng(0).integers(60, 80, 1000) + np.arange(1000) // 8
    lists = []
    for rest in (sizes[700:], np.full(300, 9), np.full(300, 400)):
        log = logged(np.concatenate((sizes[:700], rest)))
        case = Case.of(request(log, profile))
        seen = case.observe(log, case.default_lists())
        chosen = Choice(case.front(seen).at(10), guard=GUARD)
        held, held_out_steps = rehearse(case, log, seen, 0.3, chosen)
        assert held is not None and held_out_steps == 300
        lists.append(held.lists)
    assert lists[0] == lists[1] == lists[2]


def test_a_flat_curve_and_a_short_default_is_no_gain(trace: RequestTrace, profile: CostProfile) -> None:
    cost = profile.family("decode_full")
    flat = CostProfile("flat", {"decode_full": replace(cost, step_ms=np.full(len(cost.sizes), 9.0), row_ms=0.0)})
    sglang = engine("sglang@0.5.23")
    options = sglang.options({"max_running_requests": "1", "cuda_graph_max_bs_decode": "1"})
    answer = recommend(
        replace(
            request(trace.window(0, 300), flat), options=options, serving=ServingOptions(policy="decode", load=0.001)
        )
    )
    assert answer.verdict == "keep_default" and answer.reasons[0].startswith("No gain")


@pytest.mark.parametrize("spec", list(SETS))
@pytest.mark.parametrize(("name", "load"), [("conv", 1.0), ("conv", 12.0), ("conv", 20.0), ("code", 8.0)])
def test_public_traffic_gets_half_the_sizes_at_no_loss(
    public_traces: Path, profile: CostProfile, spec: str, name: str, load: float
) -> None:
    traffic = read(public_traces / "azure" / f"AzureLLMInferenceTrace_{name}.csv").traffic
    begin = time.perf_counter()
    serving = ServingOptions(policy="decode", load=load)
    answer = recommend(request(traffic, profile, spec, serving=serving, trials=24))
    assert time.perf_counter() - begin < 20
    tuned, default = answer.scorecard, answer.default_scorecard
    assert tuned.list_length <= default.list_length / 2
    assert tuned.mean_step_ms <= default.mean_step_ms
    assert tuned.worst_regret <= 0.10 + 1e-9 and math.isfinite(tuned.capture_s)
    no_worse = answer.holdout.tuned.mean_step_ms <= answer.holdout.default.mean_step_ms * (1 + 1e-9)
    assert answer.verdict == ("try" if no_worse else "keep_default")
