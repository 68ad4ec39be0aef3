"""The whole way inside an engine: profile, list, interleaved starts, records that accumulate, verdict."""

from __future__ import annotations

import math
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.capture.probes.compile_cache import CacheState
from services.capture.probes.device import DeviceIdentity
from services.capture.probes.evidence import Evidence, weigh
from services.capture.probes.experiment import DEFAULT, POWERS, TUNED, Experiment, Outcome, largest_captured
from services.capture.probes.failures import EngineFailed
from services.capture.probes.order import fairest
from services.capture.probes.records import Folder, StartRecord
from services.capture.probes.starting import Starter
from services.capture.probes.step_time import StepProtocol
from services.capture.probes.time_limit import TimeLimit
from services.capture.probes.vllm_server import VllmServer
from services.engine_view import read_evidence
from tests.services.capture.probes.conftest import MakeExperiment, requests, workload
from tests.services.capture.probes.virtual import Costs, VirtualProbe, WaveCosts
from workloads.errors import BadInput, BadUsage
from workloads.traces.records import RequestTrace


def weighed(made: Experiment) -> Evidence:
    outcome = made.run()
    assert outcome.profile is not None and outcome.comparison is not None and not outcome.left
    records = made.starter.folder.starts()
    return weigh(records, outcome.comparison, outcome.profile, made.engine, made.options, made.plan.thresholds)


def test_a_shorter_list_that_is_as_fast_is_adopted_and_records_accumulate(experiment: MakeExperiment) -> None:
    probe = VirtualProbe(Costs(noise=(0.001, -0.001, 0.0005, -0.0005, 0.0)))
    made = experiment(probe)
    assert weighed(made).decision.verdict == "inconclusive"  # one start of each decides nothing
    folder = made.starter.folder
    names = [(record.purpose, record.name) for record in folder.starts()]
    assert [purpose for purpose, _ in names[:3]] == ["steps", "profile", "profile"]
    assert [name for _, name in names[3:]] == [DEFAULT, TUNED, POWERS]
    thresholds_written = (folder.path / "plan.json").stat().st_mtime_ns
    assert thresholds_written <= (folder.path / "start-0001.json").stat().st_mtime_ns

    evidence = weighed(replace(made, starts=5))
    names = [(record.purpose, record.name) for record in folder.starts()]
    assert [name for _, name in names[6:10]] == [TUNED, DEFAULT, DEFAULT, TUNED] and len(names) == 14
    weighed(replace(made, starts=5))
    assert len(folder.starts()) == 14  # everything is there: nothing is started

    default, tuned, powers = evidence.lists
    assert (default.starts, tuned.starts, powers.starts) == (5, 5, 1)
    assert default.effective == {"capture": made.engine.default_lists(made.options)["capture"]}
    assert powers.effective == {"capture": (1, 2, 4, 8, 16, 32, 64, 128)}
    assert tuned.effective["capture"][-1] == 128  # mixed steps go on where decode steps end
    assert tuned.list_length < default.list_length and evidence.decision.verdict == "adopt"
    (only,) = evidence.workloads
    held = only.lists[1].prediction
    assert held is not None and held.step_ms == pytest.approx(held.measured_ms, rel=0.01)
    assert held.held and held.band_share == pytest.approx(0.0016, abs=0.001) and held.tolerated_share == 0.03
    assert tuned.worst_regret is not None and only.lists[1].by_rule["fallback"] == 0
    for item, on in zip(evidence.lists, only.lists, strict=True):
        assert {"startup_s", "capture_s", "graph_memory_mib", "kv_tokens"} == set(item.figures)
        assert {"ttft_ms", "tpot_ms", "throughput_tokens_per_s", "mean_step_ms", "drain_s"} <= set(on.figures)
    record = folder.starts()[-1]
    assert set(record.part_s) == {"start", "serve made up", "replay", "stop"}
    assert evidence.decision.changes["capture_s"].mean < -0.2


def test_served_times_are_compared_beside_prompts_without_a_graph(experiment: MakeExperiment) -> None:
    """The host of every other start is slow: that moves all served times, and no list has a part in it."""
    made = experiment(VirtualProbe(Costs()), starts=4)
    outcome = made.run()
    assert outcome.comparison is not None and outcome.profile is not None
    assert largest_captured(outcome.comparison, made.engine, made.options) == 128
    slower = {record.number: (0.0, 0.04, 0.09)[record.number % 3] for record in made.starter.folder.starts()}

    def slowed(record: StartRecord) -> StartRecord:
        by = 1 + slower[record.number]
        runs = {
            name: replace(
                run,
                served=replace(
                    run.served,
                    ttft_mean_ms=run.served.ttft_mean_ms * by,
                    tpot_mean_ms=run.served.tpot_mean_ms * by**0.3,
                    uncaptured_ttft_ms=(run.served.uncaptured_ttft_ms or math.nan) * by,
                ),
            )
            for name, run in record.runs.items()
        }
        return replace(record, runs=runs)

    records = [slowed(record) for record in made.starter.folder.starts()]
    found = weigh(records, outcome.comparison, outcome.profile, made.engine, made.options, made.plan.thresholds)
    changes = found.decision.workload_changes["made up"]
    for name in ("tpot_ms", "ttft_ms"):
        read, plain = changes[name], changes[f"{name}_unadjusted"]
        assert read.low is not None and read.high is not None and plain.low is not None and plain.high is not None
        assert read.high - read.low < 0.1 * (plain.high - plain.low)
    assert any("too long for any graph" in note for note in found.notes)


def test_the_profile_is_the_engines_own_curve_and_names_the_engine(experiment: MakeExperiment) -> None:
    costs = Costs()
    profile = experiment(VirtualProbe(costs)).run().profile
    assert profile is not None
    cost = profile.family("decode_full")
    assert profile.software is not None and profile.software["engine"] == "vllm@0.23.0"
    assert (cost.attention_ms_per_mtoken, cost.row_ms) == pytest.approx((40.0, 0.002), rel=0.02)
    assert cost.bucket_ms() == pytest.approx([costs.bucket_ms(int(size)) for size in cost.sizes], rel=1e-3)
    eager = np.isfinite(cost.fallback_ms)
    terms_ms = cost.step_ms[eager] - cost.bucket_ms()[eager]
    assert eager.any() and cost.fallback_ms[eager] - terms_ms == pytest.approx(2 * cost.bucket_ms()[eager], rel=0.01)
    assert (cost.capture_fixed_s, cost.capture_s[0]) == pytest.approx((0.5, 0.1), rel=0.01)
    default_end = 128  # so far the starts capture, for mixed steps
    assert (cost.pool_mib, cost.memory_mib[0]) == pytest.approx((10 * default_end, 5), rel=0.01)
    assert profile.prefill is not None and profile.prefill.step_ms == pytest.approx(0.02 * profile.prefill.tokens)
    assert set(cost.starts.tolist()) == {1, 2}  # what may be chosen is read a second time


def test_an_engine_that_attends_in_waves_is_predicted_step_by_step(experiment: MakeExperiment) -> None:
    made = experiment(VirtualProbe(WaveCosts()))
    evidence, profile = weighed(made), made.run().profile
    assert profile is not None
    curve = profile.family("decode_full").row_curve
    at = dict(zip(curve.rows.tolist(), curve.rows_ms.tolist(), strict=True))
    assert at[17] - at[16] > 0.1 and at[32] < at[17]  # a wave that has just begun costs most
    for on in evidence.workloads[0].lists:
        assert on.prediction is not None and on.prediction.step_ms == pytest.approx(on.prediction.measured_ms, rel=0.01)


def test_a_list_that_the_engine_refuses_is_recorded_and_not_adopted(experiment: MakeExperiment) -> None:
    lists = {"capture": (1, 64)}
    made = experiment(VirtualProbe(Costs(), refuses=lambda asked: asked == lists), starts=3, lists=lists)
    evidence = weighed(made)
    assert evidence.decision.verdict == "keep_default"
    assert evidence.decision.reasons == (
        "The engine does not start with this list: customized sizes should be consistent",
    )
    assert len(evidence.lists[1].failures) == 1  # asking again would not change it


def test_one_list_serves_several_workloads_and_every_start_serves_all_of_them(experiment: MakeExperiment) -> None:
    also = (workload("heavy", 4.0, requests()), workload("other", 2.0, requests(seed=1)))
    made = experiment(also=also, starts=3)
    evidence = weighed(made)
    assert [of.workload.name for of in evidence.workloads] == ["made up", "heavy", "other"]
    comparison = made.run().comparison
    assert comparison is not None and "one list for 3 workloads" in comparison.requested_by
    default, tuned, _ = evidence.lists
    assert tuned.list_length <= default.list_length // 3 + 1  # and the end of mixed steps
    assert evidence.decision.verdict == "adopt" and set(evidence.decision.workload_changes) == {
        of.workload.name for of in evidence.workloads
    }
    last = made.starter.folder.starts()[-1]
    assert set(last.runs) == {"made up", "heavy", "other"}
    assert [(t.rows, t.context_tokens) for t in last.steps] == [(c.rows, c.context_tokens) for c in comparison.cases]
    for of in evidence.workloads:
        for on in of.lists:
            assert on.prediction is not None and on.prediction.step_ms == pytest.approx(on.prediction.measured_ms, 0.01)
    answer = read_evidence(made.starter.folder.path)
    assert answer.workload == "made up, heavy, other" and answer.load is None
    assert [of.load for of in answer.workloads] == [1.0, 4.0, 2.0] and "tpot_ms" not in answer.lists[0].figures


def test_prompts_of_two_workloads_have_nothing_in_common() -> None:
    made = [workload("same", 1.0, requests()).schedule(5.0, 1000, stream) for stream in (0, 1)]
    first, second = ({request.seed for request in schedule.requests} for schedule in made if schedule is not None)
    assert len(first) == len(second) > 50 and not first & second


def test_a_server_is_given_every_workload_in_every_start(experiment: MakeExperiment, tmp_path: Path) -> None:
    """The whole way through processes, HTTP and logs, with a stand-in for the engine."""
    draw = np.random.default_rng(3)
    short = [RequestTrace(np.arange(60) * 0.02, draw.integers(8, 40, 60), draw.integers(4, 16, 60)) for _ in range(3)]
    virtual = experiment()
    folder = Folder(tmp_path / "dry")
    workloads = tuple(
        workload(f"w{i}", load, trace) for i, (load, trace) in enumerate(zip((1, 2, 1), short, strict=True))
    )
    plan = replace(
        virtual.plan,
        workloads=tuple(of.plan for of in workloads),
        serve_s=0.25,
        context_tokens=64,
        replay_steps=2,
        protocol=StepProtocol(short_tokens=2, long_tokens=10, repeats=1, least_repeats=1),
    )
    launch = replace(virtual.starter.launch, raw_options={"max_num_seqs": "8"})
    made = replace(
        virtual,
        plan=folder.agree(replace(plan, options=launch.raw_options)),
        starter=Starter(VllmServer(), launch, folder),
        options=launch.options,
        profile_starts=1,
        longest_tokens=200,
        workloads=workloads,
        log_settles_s=0.15,
    )
    assert not made.run().left
    answer = read_evidence(folder.path)
    for of in answer.workloads:
        assert {"tpot_ms", "ttft_ms", "drain_s", "exact_rate", "mean_step_ms"} <= set(of.lists[1].figures)
        assert of.changes["tpot_ms"].mean < 0.5
    assert {f"serve w{i}" for i in range(3)} < set(folder.starts()[-1].part_s)


def test_a_load_beyond_what_the_engine_serves_is_said_and_not_refused(experiment: MakeExperiment) -> None:
    said: list[str] = []
    made = experiment(load=200.0, lists={"capture": (1, 8, 64)})
    evidence = weighed(replace(made, say=said.append))
    assert said == [evidence.notes[0]]
    assert "beyond what this engine can serve" in evidence.notes[0] and "the queue" in evidence.notes[0]


def test_a_profile_that_does_not_keep_its_word_is_told_with_the_step_that_it_misses(experiment: MakeExperiment) -> None:
    costs = Costs()
    made = experiment(VirtualProbe(costs), lists={"capture": (1, 8, 64)})

    def dearer_once_profiled(record: StartRecord) -> None:
        if record.number == 3:  # of the profiling starts the last
            costs.attention_ms_per_mtoken = 400.0

    evidence = weighed(replace(made, on_start=dearer_once_profiled))
    missed = [note for note in evidence.notes if note.startswith("target missed: made up, tuned: the profile predicts")]
    assert len(missed) == 1 and "tolerated 3.0%); most of it: " in missed[0] and " rows at " in missed[0]
    for on in evidence.workloads[0].lists:
        assert on.prediction is not None and not on.prediction.held and on.prediction.error_share < -0.03


def test_what_cannot_be_counted_costs_no_start_its_times(
    experiment: MakeExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(log: Path, from_byte: int, engine: str) -> None:
        raise BadInput("no such columns", file="log")

    monkeypatch.setattr("services.capture.probes.compare_task.census_of", unreadable)
    evidence = weighed(experiment(lists={"capture": (1, 8, 64)}))
    assert "tpot_ms" in evidence.workloads[0].lists[1].figures
    assert any("could not be counted" in note and "no such columns" in note for note in evidence.notes)


def test_no_start_begins_that_would_not_be_over_in_time(experiment: MakeExperiment) -> None:
    made = experiment(starts=2)
    folder = made.starter.folder
    profiling = replace(made, limit=TimeLimit(100.0))
    long = replace(
        profiling, on_start=lambda record: folder.add(replace(record, seconds=60.0 * record.number))
    )  # as if it had taken so long
    outcome = long.run()
    assert outcome.profile is None and len(folder.starts()) == 2  # 60 s, 120 s: no third one in 100 s
    assert outcome.left == ("profile", DEFAULT, TUNED, POWERS, TUNED, DEFAULT)
    answer = read_evidence(folder.path, len(outcome.left))
    assert answer.verdict == "inconclusive" and "6 starts are left" in answer.reasons[0] and answer.lists == ()
    assert not made.run().left  # the same question, with time: it goes on


def test_the_first_of_a_kind_is_judged_by_what_it_takes_at_least() -> None:
    known = (StartRecord("profile", "profile", 1, "now", None, startup_s=30.0, seconds=80.0),)
    assert TimeLimit(85.0).admits("compare", known)
    assert not TimeLimit(85.0).admits("compare", known, least_s=60.0)
    assert not TimeLimit(75.0).admits("compare", known) and TimeLimit().admits("compare", known, 1e9)


def test_the_start_up_of_a_start_that_compiled_first_is_left_out(experiment: MakeExperiment) -> None:
    made = experiment(starts=2, lists={"capture": (1, 8, 64)})

    def cold_at_first(record: StartRecord) -> None:
        state: CacheState = "cold" if record.number == 4 else "warm"
        made.starter.folder.add(replace(record, compile_cache=state))

    evidence = weighed(replace(made, on_start=cold_at_first))
    default, tuned, _ = evidence.lists
    assert (default.figures["startup_s"].values, tuned.figures["startup_s"].values) == (1, 2)
    assert default.figures["capture_s"].values == 2
    assert any("1 of the comparing starts had to compile first" in note for note in evidence.notes)


def test_traffic_without_an_order_is_not_split(experiment: MakeExperiment) -> None:
    made = workload("made up", 1.0, requests())
    assert made.fit_part.digest() != made.traffic.digest() != made.test_part.digest()
    whole = replace(made, plan=replace(made.plan, fit_share=1.0))
    assert whole.fit_part is whole.test_part is made.traffic


def test_records_of_another_experiment_are_not_mixed_with_this_one(experiment: MakeExperiment) -> None:
    experiment(load=1.0)
    with pytest.raises(BadUsage, match=r"workloads was .*load=1\.0.*, is .*load=2\.0.*; give another folder"):
        experiment(load=2.0)


def test_two_runs_add_to_one_folder_at_the_same_time_on_two_gpus_only(tmp_path: Path) -> None:
    folder, other = Folder(tmp_path), Folder(tmp_path)
    with folder.deciding():
        first = folder.claim("compare", DEFAULT, "GPU-a")
    with other.deciding():
        with pytest.raises(BadUsage, match="another run adds to this folder now, on the same GPU"):
            other.claim("compare", TUNED, "GPU-a")
        second = other.claim("compare", TUNED, "GPU-b")
        assert [(claim.number, claim.name) for claim in other.claims()] == [(1, DEFAULT), (2, TUNED)]
    first.release()
    second.release()
    with folder.deciding():
        assert folder.claims() == ()
        folder.claim("compare", TUNED, "GPU-a").release()


def test_what_a_killed_command_claimed_is_free_again(tmp_path: Path) -> None:
    (tmp_path / ".start-0003.claim").write_text('{"number": 3, "purpose": "steps", "name": "steps", "gpu": null}')
    folder = Folder(tmp_path)
    with folder.deciding():
        assert folder.claims() == ()
    assert list(tmp_path.glob(".start-*")) == []


def test_an_engine_that_never_starts_ends_the_run_with_its_reason(experiment: MakeExperiment) -> None:
    made = experiment(VirtualProbe(Costs(), refuses=lambda lists: True))
    with pytest.raises(EngineFailed, match="refused"):
        made.run()
    (record,) = made.starter.folder.starts()
    assert record.failure is not None and record.steps == ()


def test_two_commands_share_the_starts_and_each_takes_its_turns(
    experiment: MakeExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One a GPU: what one profiles the other waits for, no number is given twice, and no start is done twice."""
    monkeypatch.setattr("services.capture.probes.experiment._ELSEWHERE_S", 0.02)
    made = experiment(starts=3)
    done: list[StartRecord] = []

    def told(record: StartRecord) -> None:
        done.append(record)
        time.sleep(0.2)  # starts of this engine take no time, and the other command is to get its turn

    def run(gpu: str) -> Outcome:
        probe = VirtualProbe(Costs(), device=DeviceIdentity("NVIDIA H200", gpu))
        return replace(made, starter=replace(made.starter, probe=probe), on_start=told).run()

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(run, ("GPU-a", "GPU-b")))
    records = made.starter.folder.starts()
    assert [record.number for record in records] == list(range(1, len(records) + 1)) and len(done) == len(records)
    compared = Counter(record.name for record in records if record.purpose == "compare")
    assert compared == {DEFAULT: 3, TUNED: 3, POWERS: 1}
    assert {record.gpu for record in records} == {"GPU-a", "GPU-b"}
    assert min(len(outcome.left) for outcome in outcomes) == 0


def test_lists_take_turns_on_every_gpu() -> None:
    left = ("powers", "tuned", "default", "default")
    assert fairest(left, ["default"]) == "powers"
    assert fairest(left, ["default", "powers"]) == "tuned"
    assert fairest(("tuned", "default"), ["tuned", "tuned", "default"]) == "default"
