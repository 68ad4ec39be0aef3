"""The whole way inside an engine: profile, list, interleaved starts, records that accumulate, verdict."""

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
from tests.services.capture.probes.conftest import MakeLaunch
from tests.services.capture.probes.virtual import Costs, VirtualProbe
from tuner.budget import Budget
from tuner.engine_verdict import EngineThresholds
from tuner.recommendation import ServingOptions
from workloads.errors import BadUsage
from workloads.models.config import load_config
from workloads.traces.records import RequestTrace

MakeExperiment = Callable[..., Experiment]


def requests(count: int = 1500) -> RequestTrace:
    draw = np.random.default_rng(0)
    arrivals = np.concatenate(([0.0], np.cumsum(draw.exponential(0.04, count - 1))))
    return RequestTrace(arrivals, draw.integers(200, 1200, count), draw.integers(20, 200, count))


@pytest.fixture
def experiment(launch: MakeLaunch, tmp_path: Path) -> MakeExperiment:
    def make(
        probe: VirtualProbe | None = None,
        starts: int = 1,
        load: float = 1.0,
        lists: dict[str, tuple[int, ...]] | None = None,
    ) -> Experiment:
        trace, started = requests(), launch(options={"max_num_seqs": "64"})
        plan = ExperimentPlan(
            engine="vllm@0.23.0",
            options=started.raw_options,
            way="server",
            model="llama-3.1-8b",
            dummy_weights=True,
            workload="made up",
            workload_digest=trace.digest(),
            load=load,
            fit_share=0.7,
            serve_s=5.0,
            context_tokens=typical_context(trace),
            replay_steps=8,
            profile_starts=2,
            protocol=StepProtocol(repeats=2),
            thresholds=EngineThresholds(),
            lists=lists,
        )
        folder = Folder(tmp_path / "records")
        return Experiment(
            plan=folder.agree(plan),
            starter=Starter(probe or VirtualProbe(Costs()), started, folder),
            engine=started.engine,
            options=started.options,
            model=load_config("llama-3.1-8b"),
            longest_tokens=131_072,
            traffic=trace,
            serving=ServingOptions(load=load),
            budget=Budget(),
            starts=starts,
            trials=1,
            log_settles_s=0.0,
        )

    return make


def weighed(made: Experiment) -> Evidence:
    profile, comparison = made.run()
    records = made.starter.folder.starts()
    return weigh(records, comparison, profile, made.engine, made.options, made.plan.thresholds)


def test_a_shorter_list_that_is_as_fast_is_adopted_and_records_accumulate(experiment: MakeExperiment) -> None:
    probe = VirtualProbe(Costs(noise=(0.001, -0.001, 0.0005, -0.0005, 0.0)))
    made = experiment(probe)
    assert weighed(made).decision.verdict == "inconclusive"  # one start of each decides nothing
    folder = made.starter.folder
    names = [(record.purpose, record.name) for record in folder.starts()]
    assert [purpose for purpose, _ in names[:4]] == ["steps", "fallback", "profile", "profile"]
    assert [name for _, name in names[4:]] == [DEFAULT, TUNED, POWERS]
    thresholds_written = (folder.path / "plan.json").stat().st_mtime_ns
    assert thresholds_written <= (folder.path / "start-0001.json").stat().st_mtime_ns

    evidence = weighed(replace(made, starts=5))
    names = [(record.purpose, record.name) for record in folder.starts()]
    assert [name for _, name in names[7:11]] == [TUNED, DEFAULT, DEFAULT, TUNED] and len(names) == 15
    weighed(replace(made, starts=5))
    assert len(folder.starts()) == 15  # everything is there: nothing is started

    default, tuned, powers = evidence.lists
    assert (default.starts, tuned.starts, powers.starts) == (5, 5, 1)
    assert default.effective == {"capture": made.engine.default_lists(made.options)["capture"]}
    assert powers.effective == {"capture": (1, 2, 4, 8, 16, 32, 64, 128)}
    assert tuned.effective["capture"][-1] == 128  # mixed steps go on where decode steps end
    assert tuned.list_length < default.list_length and evidence.decision.verdict == "adopt"
    assert tuned.predicted_step_ms == pytest.approx(tuned.figures["mean_step_ms"].mean, rel=0.01)
    assert tuned.worst_regret is not None and tuned.by_rule["fallback"] == 0
    for item in evidence.lists:
        assert {"ttft_ms", "tpot_ms", "throughput_tokens_per_s", "capture_s", "kv_tokens"} <= set(item.figures)
    assert evidence.decision.changes["capture_s"].mean < -0.2


def test_the_profile_is_the_engines_own_curve_and_names_the_engine(experiment: MakeExperiment) -> None:
    costs = Costs()
    profile, _ = experiment(VirtualProbe(costs)).run()
    cost = profile.family("decode_full")
    assert profile.software is not None and profile.software["engine"] == "vllm@0.23.0"
    assert (cost.attention_ms_per_mtoken, cost.row_ms) == pytest.approx((40.0, 0.002), rel=0.01)
    assert cost.bucket_ms() == pytest.approx([costs.bucket_ms(int(size)) for size in cost.sizes], rel=1e-3)
    eager = np.isfinite(cost.fallback_ms)
    terms_ms = cost.step_ms[eager] - cost.bucket_ms()[eager]
    assert eager.any() and cost.fallback_ms[eager] - terms_ms == pytest.approx(2 * cost.bucket_ms()[eager], rel=0.01)
    assert (cost.capture_fixed_s, cost.capture_s[0]) == pytest.approx((0.5, 0.1), rel=0.01)
    assert (cost.pool_mib, cost.memory_mib[0]) == pytest.approx((700, 5), rel=0.01)
    assert profile.prefill is not None and profile.prefill.step_ms[0] == pytest.approx(0.02 * 128)
    assert set(cost.starts.tolist()) == {2}


def test_a_list_that_the_engine_refuses_is_recorded_and_not_adopted(experiment: MakeExperiment) -> None:
    lists = {"capture": (1, 64)}
    made = experiment(VirtualProbe(Costs(), refuses=lambda asked: asked == lists), starts=3, lists=lists)
    evidence = weighed(made)
    assert evidence.decision.verdict == "keep_default"
    assert evidence.decision.reasons == (
        "The engine does not start with this list: customized sizes should be consistent",
    )
    assert len(evidence.lists[1].failures) == 2  # it was tried twice and then given up


def test_traffic_without_an_order_is_not_split(experiment: MakeExperiment) -> None:
    made = experiment()
    assert made.fit_part.digest() != made.traffic.digest() != made.test_part.digest()
    whole = replace(made, plan=replace(made.plan, fit_share=1.0))
    assert whole.fit_part is whole.test_part is made.traffic


def test_records_of_another_experiment_are_not_mixed_with_this_one(experiment: MakeExperiment) -> None:
    experiment(load=1.0)
    with pytest.raises(BadUsage, match=r"load was 1\.0, is 2\.0; give another folder"):
        experiment(load=2.0)


def test_two_runs_do_not_add_to_one_folder_at_the_same_time(tmp_path: Path) -> None:
    with (
        Folder(tmp_path).claimed(),
        pytest.raises(BadUsage, match="another run adds to this folder now"),
        Folder(tmp_path).claimed(),
    ):
        pass
    with Folder(tmp_path).claimed():
        pass


def test_an_engine_that_never_starts_ends_the_run_with_its_reason(experiment: MakeExperiment) -> None:
    made = experiment(VirtualProbe(Costs(), refuses=lambda lists: True))
    with pytest.raises(EngineFailed, match="refused"):
        made.run()
    (record,) = made.starter.folder.starts()
    assert record.failure is not None and record.steps == ()
