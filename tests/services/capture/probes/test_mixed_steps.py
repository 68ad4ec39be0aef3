"""Mixed steps run in graphs of the list that decode steps have: they are measured, and the list is chosen for both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.capture.probes.experiment import TUNED, Experiment
from services.capture.probes.prompt_time import captured_prompts, mixed_family, mixed_sizes, uncaptured_prompts
from services.capture.probes.records import Folder
from services.capture.probes.tasks import probe_candidates
from services.capture.probes.tuned_list import Chooser
from services.capture.probes.workload import EngineWorkload
from tests.services.capture.probes.conftest import MakeExperiment, workload
from tests.services.capture.probes.virtual import MixedCosts, VirtualProbe
from tuner.cost_profile import CostProfile
from tuner.engines.base import Lists
from tuner.engines.registry import engine
from tuner.kv_cache import graph_memory
from tuner.step_cost import capture_cost
from tuner.traffic import Observed, observe
from workloads.arrays import F64, I64
from workloads.traces.records import RequestTrace

DECODE, MIXED = "decode_full", "decode_piecewise"


def short_prompts(count: int = 2500, seed: int = 4) -> RequestTrace:
    """Few requests run at a time, and prompts are shorter than the list is long: mixed steps are larger than others."""
    draw = np.random.default_rng(seed)
    arrivals = np.concatenate(([0.0], np.cumsum(draw.exponential(0.05, count - 1))))
    return RequestTrace(arrivals, draw.integers(20, 60, count), draw.integers(10, 60, count))


@pytest.fixture
def mixed_experiment(experiment: MakeExperiment, tmp_path: Path) -> Experiment:
    made, served = experiment(VirtualProbe(MixedCosts())), workload("short", 1.0, short_prompts())
    folder = Folder(tmp_path / "mixed")
    plan = replace(made.plan, workloads=(served.plan,), context_tokens=64)
    starter = replace(made.starter, folder=folder)
    return replace(made, plan=folder.agree(plan), starter=starter, workloads=(served,))


def test_the_family_comes_back_and_costs_no_second_capture(mixed_experiment: Experiment) -> None:
    costs = MixedCosts()
    profile = mixed_experiment.run().profile
    assert profile is not None and set(profile.families) == {DECODE, MIXED}
    cost = profile.family(MIXED)
    assert cost.sizes.tolist() == [16, 32, 64, 128] and set(cost.starts.tolist()) == {2} and cost.unit == "tokens"
    assert cost.bucket_ms() == pytest.approx([costs.mixed_ms(size) for size in cost.sizes.tolist()])
    assert cost.spread_ms == pytest.approx(0.0)
    assert np.isnan(cost.fallback_ms).tolist() == [True, True, True, False]
    assert cost.fallback_ms[-1] == pytest.approx(2 * costs.mixed_ms(128))
    assert profile.prefill is not None
    tokens, prefill_ms = profile.prefill.curve()
    captured = tokens <= 128  # where the engine's own list ends, above the largest decode step
    assert prefill_ms[captured] == pytest.approx(5.0 + 0.04 * tokens[captured])
    assert prefill_ms[~captured] == pytest.approx(2 * (5.0 + 0.04 * tokens[~captured])) and not captured.all()

    own = profile.family(DECODE)
    assert cost.captured_with_another and not own.captured_with_another
    assert capture_cost(cost, (1, 64)) == (0.0, 0.0)
    memory = graph_memory(profile, DECODE)
    assert memory is not None
    sizes = (1, 16, 64)
    total_mib = memory.total_mib({DECODE: sizes, MIXED: sizes}, graphs=6)
    assert total_mib == pytest.approx(capture_cost(own, sizes)[1])  # what the engine logged of both, once


def test_a_list_for_both_is_as_fast_as_the_default_and_has_narrower_gaps(mixed_experiment: Experiment) -> None:
    outcome = mixed_experiment.run()
    assert outcome.profile is not None and outcome.comparison is not None
    (served,) = mixed_experiment.workloads
    engine_, options = mixed_experiment.engine, mixed_experiment.options
    seen = observe(served.test_part, engine_, options, outcome.profile, served.serving)
    default = engine_.default_lists(options)["capture"]
    tuned = sizes_of(outcome.comparison.lists[TUNED])
    alone = sizes_of(chosen(mixed_experiment, without_mixed(outcome.profile)))
    assert len(tuned) < 0.6 * len(default)
    assert both_ms(seen, tuned) < 1.005 * both_ms(seen, default)
    exact = tuple(range(1, default[-1] + 1))
    for of in (decode_ms, mixed_ms):  # it adds less than the default itself adds to steps without padding
        assert of(seen, tuned) - of(seen, default) < of(seen, default) - of(seen, exact)
    assert padded_tokens(seen, tuned) < padded_tokens(seen, alone)
    assert mixed_ms(seen, tuned) < mixed_ms(seen, alone)


def test_one_list_for_several_workloads_serves_their_mixed_steps_too(mixed_experiment: Experiment) -> None:
    profile = mixed_experiment.run().profile
    assert profile is not None
    also = (workload("faster", 2.0, short_prompts(seed=5)),)
    both, alone = (sizes_of(chosen(mixed_experiment, of, also)) for of in (profile, without_mixed(profile)))
    assert len(both) <= len(alone)
    for served in (*mixed_experiment.workloads, *also):
        seen = observe(served.test_part, mixed_experiment.engine, mixed_experiment.options, profile, served.serving)
        assert padded_tokens(seen, both) < padded_tokens(seen, alone) and both_ms(seen, both) < both_ms(seen, alone)


def sizes_of(lists: Lists | None) -> tuple[int, ...]:
    assert lists is not None
    return tuple(lists["capture"])


def without_mixed(profile: CostProfile) -> CostProfile:
    return replace(profile, families={DECODE: profile.family(DECODE)})


def chosen(made: Experiment, profile: CostProfile, also: tuple[EngineWorkload, ...] = ()) -> Lists:
    raw = dict(made.plan.options)
    chooser = Chooser(made.engine, made.options, raw, profile, made.budget, made.trials, lambda found: None)
    return chooser.choose((*made.workloads, *also)).lists


def buckets_of(sizes: I64, captured: tuple[int, ...]) -> I64:
    return np.array(captured)[np.searchsorted(captured, sizes)]


def mean(seen: Observed, family: str, per_size: F64) -> float:
    return float(np.average(per_size, weights=seen.histograms[family].steps))


def decode_ms(seen: Observed, captured: tuple[int, ...]) -> float:
    buckets = buckets_of(seen.histograms[DECODE].sizes, captured)
    return mean(seen, DECODE, np.array([MixedCosts().bucket_ms(bucket) for bucket in buckets.tolist()]))


def mixed_ms(seen: Observed, captured: tuple[int, ...]) -> float:
    return mean(seen, MIXED, np.array([MixedCosts().prompt_ms(n, captured) for n in seen.histograms[MIXED].sizes]))


def both_ms(seen: Observed, captured: tuple[int, ...]) -> float:
    """All steps together, per decode step."""
    share = seen.histograms[MIXED].total_steps / seen.histograms[DECODE].total_steps
    return decode_ms(seen, captured) + share * mixed_ms(seen, captured)


def padded_tokens(seen: Observed, captured: tuple[int, ...]) -> float:
    sizes = seen.histograms[MIXED].sizes
    graphed = sizes <= captured[-1]
    buckets = buckets_of(np.minimum(sizes, captured[-1]), captured)
    return mean(seen, MIXED, np.where(graphed, buckets - sizes, 0).astype(np.float64))


def test_a_dozen_sizes_over_the_range_are_read_and_the_last() -> None:
    captured = probe_candidates(512)
    sizes = mixed_sizes(captured, 8192)
    assert sizes == (16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
    assert captured_prompts(sizes).prompts * 0.025 < 3  # seconds, at 25 ms a prompt
    assert mixed_sizes(captured, 300)[-1] == 288 and mixed_sizes(probe_candidates(500), 8192)[-1] == 500
    assert mixed_sizes((1, 2, 8), 8192) == (8,) and mixed_sizes((1,), 8192) == ()
    uncaptured = uncaptured_prompts(sizes, 128, 3000)
    assert uncaptured.tokens == (128, 256, 384, 512, 1024, 2048)


def test_prompts_of_two_starts_have_nothing_in_common() -> None:
    plans = (captured_prompts((16, 32, 512)), uncaptured_prompts((256, 512), 128, 20_000))
    seeds = [{plan.seed + 10 * n + i for n in plan.tokens for i in range(plan.readings + 1)} for plan in plans]
    assert [len(of) for of in seeds] == [plan.prompts for plan in plans] and not seeds[0] & seeds[1]


@pytest.mark.parametrize("spec", ["sglang@0.5.23", "tensorrt-llm@1.3", "lmdeploy@0.10"])
def test_other_engines_have_no_mixed_steps_on_the_list_of_decode(spec: str) -> None:
    assert mixed_family(engine(spec)) is None


@pytest.mark.parametrize("mode", ["FULL_DECODE_ONLY", "PIECEWISE"])
def test_nothing_more_is_read_where_the_options_make_one_family(mixed_experiment: Experiment, mode: str) -> None:
    raw = {"max_num_seqs": "64", "cudagraph_mode": mode}
    starter = mixed_experiment.starter
    launched = replace(starter, launch=replace(starter.launch, raw_options=raw))
    options = mixed_experiment.engine.options(raw)
    profile = replace(mixed_experiment, options=options, starter=launched).run().profile
    assert profile is not None and set(profile.families) == {DECODE}
    assert profile.prefill is not None and int(profile.prefill.tokens.min()) == 128
