"""The whole way inside a stand-in engine: profile, list, interleaved starts, records that accumulate, verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.capture.probes.evidence import Evidence, weigh
from services.capture.probes.experiment import DEFAULT, POWERS, TUNED, Experiment, typical_context
from services.capture.probes.failures import EngineFailed
from services.capture.probes.records import ExperimentPlan, Folder
from services.capture.probes.starting import Starter
from services.capture.probes.step_time import StepProtocol
from services.capture.probes.vllm_server import VllmServer
from tests.services.capture.probes.conftest import MakeLaunch
from tuner.budget import Budget
from tuner.engine_verdict import EngineThresholds
from tuner.recommendation import ServingOptions
from workloads.errors import BadUsage
from workloads.models.config import load_config
from workloads.traces.records import RequestTrace

MakeExperiment = Callable[..., Experiment]


def requests(count: int = 120) -> RequestTrace:
    draw = np.random.default_rng(0)
    return RequestTrace(
        np.concatenate(([0.0], np.cumsum(draw.exponential(0.02, count - 1)))),
        draw.integers(20, 60, count),
        draw.integers(5, 30, count),
    )


@pytest.fixture
def experiment(launch: MakeLaunch, tmp_path: Path) -> MakeExperiment:
    def make(starts: int = 1, load: float = 1.0, **stub: object) -> Experiment:
        trace, started = requests(), launch(options={"max_num_seqs": "4"}, base_ms=1.5, row_ms=0.5, **stub)
        plan = ExperimentPlan(
            engine="vllm@0.23.0",
            options=started.raw_options,
            way="server",
            model="tiny-llama",
            dummy_weights=True,
            workload="made up",
            workload_digest=trace.digest(),
            load=load,
            fit_share=0.7,
            serve_s=0.2,
            context_tokens=typical_context(trace),
            replay_steps=2,
            profile_starts=1,
            protocol=StepProtocol(short_tokens=4, long_tokens=20, repeats=2),
            thresholds=EngineThresholds(least_starts=1),
        )
        folder = Folder(tmp_path / "records")
        return Experiment(
            plan=folder.agree(plan),
            starter=Starter(VllmServer(), started, folder),
            engine=started.engine,
            options=started.options,
            model=load_config("tiny-llama"),
            longest_tokens=2048,
            traffic=trace,
            serving=ServingOptions(load=load),
            budget=Budget(),
            starts=starts,
            trials=1,
            log_settles_s=0.25,
        )

    return make


def weighed(made: Experiment) -> Evidence:
    profile, comparison = made.run()
    records = made.starter.folder.starts()
    return weigh(records, comparison, profile, made.engine, made.options, made.plan.thresholds)


def test_every_start_is_a_record_and_later_runs_add_to_it(experiment: MakeExperiment) -> None:
    made = experiment()
    evidence = weighed(made)
    folder = made.starter.folder
    names = [(record.purpose, record.name) for record in folder.starts()]
    assert [purpose for purpose, _ in names[:3]] == ["steps", "fallback", "profile"]
    assert [name for _, name in names[3:]] == [DEFAULT, TUNED, POWERS]
    profile, comparison = made.run()  # everything is there: nothing is started
    assert len(folder.starts()) == 6 and profile.software is not None
    assert profile.software["engine"] == "vllm@0.23.0"
    cost = profile.family("decode_full")
    assert {1, 2, 4} <= set(cost.sizes.tolist()) <= {1, 2, 3, 4}
    assert cost.step_ms == pytest.approx(1.5 + 0.5 * cost.sizes, rel=0.3)
    known = np.isfinite(cost.fallback_ms)
    assert known.any() and cost.fallback_ms[known] == pytest.approx(2 * (1.5 + 0.5 * cost.sizes[known]), rel=0.3)
    assert np.isfinite(cost.memory_mib).all() and profile.prefill is not None
    default, tuned, powers = evidence.lists
    assert default.effective == {"capture": made.engine.default_lists(made.options)["capture"]}
    assert tuned.effective == comparison.lists[TUNED] and powers.effective == {"capture": (1, 2, 4)}
    for item in evidence.lists:
        assert {"mean_step_ms", "ttft_ms", "tpot_ms", "throughput_tokens_per_s", "capture_s"} <= set(item.figures)
        assert item.figures["fallback_rate"].mean == 0 and item.by_rule["fallback"] == 0
        assert item.figures["exact_rate"].mean + item.figures["padded_rate"].mean == pytest.approx(1)
        assert item.predicted_step_ms == pytest.approx(item.figures["mean_step_ms"].mean, rel=0.5)
    assert evidence.decision.verdict == "inconclusive"  # one start has no interval

    more = replace(made, starts=2)
    more.run()
    names = [record.name for record in folder.starts()][6:]
    assert names == [TUNED, DEFAULT]


def test_records_of_another_experiment_are_not_mixed_with_this_one(experiment: MakeExperiment) -> None:
    experiment(load=1.0)
    with pytest.raises(BadUsage, match=r"load was 1\.0, is 2\.0; give another folder"):
        experiment(load=2.0)


def test_an_engine_that_never_starts_ends_the_run_with_its_reason(experiment: MakeExperiment) -> None:
    made = experiment(fail="memory")
    with pytest.raises(EngineFailed, match="out_of_memory_in_capture"):
        made.run()
    (record,) = made.starter.folder.starts()
    assert record.failure is not None and record.steps == ()
