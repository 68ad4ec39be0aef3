"""What is said of a sweep while it runs: the pace, the best trial, why others cannot be chosen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.sweep_live import best_trial, last_event, progress_words, seconds_left, worker_words
from dashboard.trial_table import by_reason
from services.contract.sweep import SweepModel
from services.contract.trial import TrialModel
from services.contract.worker import WorkerModel

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def sweep(**changes: Any) -> SweepModel:
    known: dict[str, Any] = {"id": "s", "trace_id": "t", "trace_name": "monday.csv", "engine": "vllm@0.33.0"}
    known |= {"profile": "h200", "model": None, "options": {}, "serving": {}, "budget": {}, "seed": 0}
    known |= {"objective": "step", "trials": 10, "holdout_share": 0.3, "state": "running", "phase": "tuning"}
    known |= {"trials_done": 4, "error": None, "recommendation_id": None, "created_at": NOON}
    known |= {"started_at": NOON, "finished_at": None}
    return SweepModel.model_validate({**known, **changes})


def trial(number: int, ms: float, tpot_ms: float, state: str = "complete", reason: str | None = None) -> TrialModel:
    card: dict[str, Any] = {"lists": {"capture": [1, 8]}, "list_length": 2, "graphs": 2, "exact_hit_rate": 1.0}
    card |= {"hit_rate": 1.0, "fallback_rate": 0.0, "padding_waste": 0.0, "mean_step_ms": ms, "tpot_ms": tpot_ms}
    card |= {"p99_step_ms": ms, "worst_regret": 0.0, "capture_s": 1.0, "memory_mib": 1.0}
    made: dict[str, Any] = {
        "number": number,
        "source": "study",
        "state": state,
        "params": {},
        "lists": {},
        "values": {},
    }
    made |= {"scorecard": card, "reason": reason, "recorded_at": NOON + timedelta(seconds=60 + 2 * number)}
    return TrialModel.model_validate(made)


TRIALS = [trial(0, 9.0, 5.0), trial(1, 7.0, 8.0), trial(2, 6.0, 4.0, "infeasible", "too slow"), trial(3, 8.0, 4.5)]


def test_the_time_left_follows_the_pace_of_the_trials_and_not_what_came_before() -> None:
    at = NOON + timedelta(seconds=66)
    assert seconds_left(sweep(), TRIALS, at) == 12.0  # six to go at 2 s, though the first came after a minute
    assert seconds_left(sweep(), TRIALS, at + timedelta(seconds=1)) == 11.0
    assert seconds_left(sweep(), TRIALS[:2], at) is None


def test_the_best_trial_is_the_best_by_the_objective_and_may_be_chosen() -> None:
    best = [best_trial(sweep(objective=objective), TRIALS) for objective in ("step", "token")]
    assert [found.number for found in best if found] == [1, 3]


def test_a_job_that_waits_for_its_time_says_which() -> None:
    waiting = sweep(state="queued", start_at=datetime(2999, 1, 1, 6, 30, tzinfo=UTC))
    assert progress_words(waiting, []) == "Waiting until 2999-01-01 06:30 UTC"
    assert progress_words(sweep(state="queued"), []) == "Waiting for the runner"


def test_reasons_are_told_once_with_the_trials_that_have_them() -> None:
    many = [trial(number, 9.0, 5.0, "infeasible", "too slow") for number in range(12)]
    assert by_reason(many) == {"too slow": "Trials 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"}
    assert last_event(TRIALS) and "trial 3, complete, 2 sizes, 8.00\u00a0ms" in str(last_event(TRIALS))


def test_a_worker_is_named_with_the_size_that_it_measures() -> None:
    known: dict[str, Any] = {"id": "w", "node": "node7", "device": "0: NVIDIA H200", "memory_mib": None, "driver": None}
    known |= {"torch": None, "ray": None, "python": None, "state": "busy", "sweep_id": "s", "current_size": 64}
    known |= {"last_error": None, "seen_at": datetime.now(UTC)}
    assert worker_words(WorkerModel.model_validate(known)) == "node7, NVIDIA H200: size 64, seen just now"
