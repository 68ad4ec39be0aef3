"""The study: the default first, good lists after it, and the same trials after a kill."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from tests.tuner.test_traffic import steps
from tuner.budget import Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile
from tuner.engines.registry import engine
from tuner.recommendation import SamplerName, ServingOptions, Trial
from tuner.study import exact_bound_ms, run_study
from tuner.study_space import Searched
from workloads.errors import BadUsage, MissingExtra
from workloads.traces.records import RequestTrace


@pytest.fixture(scope="module")
def trace() -> RequestTrace:
    rng = np.random.default_rng(5)
    arrival_s = np.cumsum(rng.exponential(0.02, 800))
    return RequestTrace(arrival_s - arrival_s[0], rng.integers(50, 900, 800), rng.integers(2, 300, 800))


@pytest.fixture
def case(profile: CostProfile) -> Case:
    sglang = engine("sglang@0.5.23")
    options = sglang.options({"max_running_requests": "256", "cuda_graph_max_bs_decode": "256"})
    return Case(sglang, options, profile, ServingOptions(policy="decode"), Budget(), "step")


def plain(trials: tuple[Trial, ...]) -> list[tuple[object, ...]]:
    return [(t.number, t.source, t.state, dict(t.params), dict(t.lists), dict(t.values), t.reason) for t in trials]


def run(case: Case, trace: RequestTrace, trials: int, **options: object) -> tuple[Trial, ...]:
    before = case.observe(trace, case.default_lists())
    return run_study(case, trace, before, trials=trials, **options)  # type: ignore[arg-type]


def test_trial_0_is_the_default_and_the_rest_are_the_exact_solvers_lists(case: Case, trace: RequestTrace) -> None:
    seen: list[Trial] = []
    trials = run(case, trace, 14, on_trial=seen.append)
    assert tuple(seen) == trials and [t.number for t in trials] == list(range(14))
    assert trials[0].source == "default" and trials[0].lists == case.default_lists()
    before = case.observe(trace, case.default_lists())
    front = case.front(before)
    read = {before.decode_family: case.confidence.read}
    solvers = replace(case, profile=replace(case.profile, families=read))  # lists are the optimum on the curve read
    sampled = [t for t in trials if t.source == "study"]
    assert len(sampled) >= 10
    assert [t.source for t in trials[:4]] == ["default", "powers_of_two", "quantiles", "padding_bounded"]
    for trial in (t for t in sampled if t.state == "complete"):
        assert trial.scorecard is not None and trial.scorecard.worst_regret <= 0.10 + 1e-9
        assert trial.params["list_length"] >= trial.scorecard.list_length
        on_before = solvers.score(trial.lists, before).mean_step_ms
        best = case.lists_of(front.at(trial.scorecard.list_length).sizes)
        assert on_before >= solvers.score(best, before).mean_step_ms - 1e-9


def test_trials_run_in_the_closed_loop_of_their_own_list(case: Case, trace: RequestTrace) -> None:
    for trial in run(case, trace, 6):
        own = case.score(trial.lists, case.observe(trace, trial.lists))
        assert trial.values["mean_step_ms"] == pytest.approx(own.mean_step_ms)


def test_infeasible_trials_say_why_and_are_no_candidates_for_best(case: Case, trace: RequestTrace) -> None:
    storage = optuna.storages.InMemoryStorage()
    trials = run(replace(case, budget=Budget(max_length=6)), trace, 12, storage=storage, study_name="s")
    broken = [t for t in trials if t.state == "infeasible"]
    assert trials[0] in broken and "max_length is over its budget" in str(trials[0].reason)
    assert all(t.reason for t in broken) and all(t.reason is None for t in trials if t.state == "complete")
    kept = optuna.load_study(study_name="s", storage=storage)
    assert {t.number for t in kept.best_trials} <= {t.number for t in trials if t.state == "complete"}


def test_a_killed_study_resumes_to_the_trials_of_an_undisturbed_one(
    case: Case, trace: RequestTrace, tmp_path: Path
) -> None:
    undisturbed = run(case, trace, 14, seed=3)
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'study.db'}")
    run(case, trace, 9, seed=3, storage=storage, study_name="s")
    # A runner that dies between ask and tell leaves a trial running.
    optuna.load_study(study_name="s", storage=storage).ask()
    again: list[Trial] = []
    resumed = run(case, trace, 14, seed=3, storage=storage, study_name="s", on_trial=again.append)
    storage.engine.dispose()
    assert plain(resumed) == plain(undisturbed) == plain(tuple(again))
    assert plain(run(case, trace, 14, seed=4)) != plain(undisturbed)


def test_a_study_killed_between_a_result_and_telling_it_resumes_alike(
    case: Case, trace: RequestTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = run(case, trace, 14, seed=3)
    storage, tell = optuna.storages.InMemoryStorage(), optuna.Study.tell

    def killed(study: optuna.Study, trial: object, *values: object, **named: object) -> object:
        if getattr(trial, "number", 0) == 7:
            raise KeyboardInterrupt
        return tell(study, trial, *values, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optuna.Study, "tell", killed)
        run(case, trace, 14, seed=3, storage=storage, study_name="s")
    assert plain(run(case, trace, 14, seed=3, storage=storage, study_name="s")) == plain(undisturbed)


def test_it_stops_when_told(case: Case, trace: RequestTrace) -> None:
    done: list[Trial] = []
    trials = run(case, trace, 50, on_trial=done.append, should_stop=lambda: len(done) >= 3)
    assert len(trials) == 3


def test_nothing_is_printed(case: Case, trace: RequestTrace, capfd: pytest.CaptureFixture[str]) -> None:
    run(case, trace, 9)
    assert capfd.readouterr() == ("", "")


def test_a_profile_without_capture_times_counts_sizes_instead(case: Case, trace: RequestTrace) -> None:
    cost = case.profile.family("decode_full")
    blind = CostProfile("blind", {"decode_full": replace(cost, capture_s=np.full(len(cost.sizes), math.nan))})
    trials = run(replace(case, profile=blind), trace, 3)
    assert trials[0].values["list_length"] == trials[0].scorecard.list_length


def test_every_trial_has_step_time_start_up_and_memory(case: Case, trace: RequestTrace) -> None:
    for trial in run(case, trace, 12):
        assert list(trial.values) == ["mean_step_ms", "capture_s", "memory_mib"]
        assert trial.values["memory_mib"] == trial.scorecard.memory_mib


@pytest.mark.parametrize(("sampler", "trials"), [("tpe", 14), ("nsgaii", 30), ("gp", 11)])
def test_every_sampler_resumes_to_the_trials_of_an_undisturbed_study(
    case: Case, trace: RequestTrace, sampler: SamplerName, trials: int
) -> None:
    undisturbed = run(case, trace, trials, sampler=sampler)
    assert all(t.state == "complete" for t in undisturbed[4:])
    storage = optuna.storages.InMemoryStorage()
    run(case, trace, trials - 1, sampler=sampler, storage=storage)
    assert plain(run(case, trace, trials, sampler=sampler, storage=storage)) == plain(undisturbed)


def test_a_sampler_that_is_unknown_or_lacks_its_libraries_is_refused_in_one_sentence(
    case: Case, trace: RequestTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadUsage, match="the samplers are tpe, nsgaii, gp, not 'cmaes'"):
        run(case, trace, 5, sampler="cmaes")
    monkeypatch.setattr("tuner.samplers.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"the Gaussian process sampler needs the extra 'gp': pip install"):
        run(case, trace, 5, sampler="gp")


def test_several_runners_share_one_study(case: Case, trace: RequestTrace, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=url, study_name="s", directions=["minimize"] * 3)

    def work() -> tuple[Trial, ...]:
        storage = optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 30}})
        try:
            return run(case, trace, 12, storage=storage, study_name="s", alone=False)
        finally:
            storage.engine.dispose()

    with ThreadPoolExecutor(2) as pool:
        parts = [future.result() for future in [pool.submit(work), pool.submit(work)]]
    numbers = {trial.number for part in parts for trial in part}
    assert numbers == set(range(12))
    storage = optuna.storages.RDBStorage(url)
    kept = [t for t in optuna.load_study(study_name="s", storage=storage).trials if t.state == TrialState.COMPLETE]
    storage.engine.dispose()
    assert sorted(t.user_attrs["slot"] for t in kept) == list(range(12))


def test_where_the_recurrence_is_exact_no_trial_beats_its_bound(case: Case) -> None:
    recorded = steps({10: 500, 90: 40, 200: 300})
    before = case.observe(recorded, case.default_lists())
    bound_ms = exact_bound_ms(case, recorded, before)
    assert bound_ms is not None
    trials = run_study(case, recorded, before, trials=20)
    best_ms = min(t.values["mean_step_ms"] for t in trials if t.state == "complete")
    assert bound_ms <= best_ms <= bound_ms * 1.003  # the study's lists are chosen on the upper confidence curve


def test_the_exact_bound_is_of_decode_steps_as_trials_are(case: Case, profile: CostProfile) -> None:
    """A draft that is slow in the graph that decode steps want most: the list gives it up, the bound does not."""
    target = profile.family("decode_full")
    draft = replace(target, step_ms=np.where(target.sizes == 200, 90.0, 1.0))
    both = replace(case, profile=CostProfile("spec", {"decode_full": target, "draft": draft}))
    recorded = steps({10: 500, 90: 40, 200: 300})
    before = case.observe(recorded, case.default_lists())
    bound_ms = exact_bound_ms(both, recorded, before)
    assert bound_ms == pytest.approx(exact_bound_ms(case, recorded, before))
    assert bound_ms is not None and bound_ms < both.front(before).points[-1].mean_step_ms


def test_the_exact_bound_is_not_claimed_for_requests(case: Case, trace: RequestTrace) -> None:
    assert exact_bound_ms(case, trace, case.observe(trace, case.default_lists())) is None


def test_searched_options_belong_to_the_trial(case: Case, trace: RequestTrace) -> None:
    raw = {"max_running_requests": "256", "cuda_graph_max_bs_decode": "256"}
    searched = Searched(raw, {"max_running_requests": ("16", "256")})
    trials = run(case, trace, 16, searched=searched)
    assert {t.params["max_running_requests"] for t in trials[4:]} == {"16", "256"}
    assert next(iter(trials[0].values)) == "ms_per_token_served"
    wrong = Searched(raw, {"max_running_requests": ("16", "many")})
    failed = [t for t in run(case, trace, 14, searched=wrong) if t.state == "failed"]
    assert failed and all("max_running_requests" in str(t.reason) for t in failed)
    with pytest.raises(BadUsage, match="needs values, each of them once"):
        Searched(raw, {"max_running_requests": ()})
