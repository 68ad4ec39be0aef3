"""One sweep inside this process: what is stored, and what an error becomes."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import text

from db.queue import LeaseLost
from db.records import Claim
from db.store import Store
from services.sweeps.job import run_sweep
from services.views import recommendation_view, sweep_view, trial_view
from tests.services.sweeps.conftest import queue_sweep
from workloads.errors import BadUsage, NotFound, Unavailable


def run(store: Store) -> Claim:
    claim = store.queue.claim("test", 60.0)
    assert claim is not None
    run_sweep(store, claim, lambda: False)
    return claim


def test_a_finished_sweep_has_its_trials_and_a_recommendation(store: Store) -> None:
    sweep = queue_sweep(store, trials=10)
    run(store)
    trials = [trial_view(trial) for trial in store.sweeps.trials(sweep.id)]
    assert [trial.number for trial in trials] == list(range(10))
    assert trials[0].source == "default"
    stored = store.recommendations.of_sweep(sweep.id)
    assert stored is not None
    answer = recommendation_view(stored)
    assert (answer.id, answer.sweep_id) == (stored.id, sweep.id)
    assert answer.scorecard.list_length * 2 <= answer.default.scorecard.list_length
    assert answer.scorecard.worst_regret is not None and answer.scorecard.worst_regret <= 0.1 + 1e-9
    assert answer.default.lists == trials[0].lists
    json.dumps(answer.model_dump(mode="json"), allow_nan=False)
    ended = sweep_view(store.sweeps.get(sweep.id), stored.id)
    assert (ended.state, ended.trials_done, ended.error) == ("complete", 10, None)


def test_equal_jobs_give_equal_documents(store: Store) -> None:
    first, second = queue_sweep(store, trials=9), queue_sweep(store, trials=9)
    run(store)
    run(store)
    one, two = store.recommendations.of_sweep(first.id), store.recommendations.of_sweep(second.id)
    assert one is not None and two is not None
    one_document, two_document = dict(one.document), dict(two.document)
    for document in (one_document, two_document):
        document["evidence"]["solver"].pop("solve_ms")
    assert one_document == two_document
    assert one.id != two.id


def test_a_job_told_to_stop_stores_no_recommendation(store: Store) -> None:
    sweep = queue_sweep(store)
    claim = store.queue.claim("test", 60.0)
    assert claim is not None
    run_sweep(store, claim, lambda: len(store.sweeps.trials(sweep.id)) >= 3)
    assert len(store.sweeps.trials(sweep.id)) == 3
    assert store.recommendations.of_sweep(sweep.id) is None


def test_a_database_that_fails_the_study_is_unavailable_and_no_fault_of_the_job(store: Store) -> None:
    sweep = queue_sweep(store)
    claim = store.queue.claim("test", 60.0)
    assert claim is not None

    def lose_the_study() -> bool:
        if len(store.sweeps.trials(sweep.id)) == 3:
            with store.engine.begin() as connection:
                connection.execute(text("ALTER TABLE trials RENAME TO lost"))
        return False

    with pytest.raises(Unavailable, match="in the middle of the study"):
        run_sweep(store, claim, lose_the_study)
    assert store.sweeps.get(sweep.id).state == "running"


def test_a_cancelled_job_cannot_finish(store: Store) -> None:
    sweep = queue_sweep(store)
    claim = store.queue.claim("test", 60.0)
    assert claim is not None
    store.sweeps.cancel(sweep.id)
    with pytest.raises(LeaseLost):
        run_sweep(store, claim, lambda: False)


def test_a_profile_or_option_that_does_not_exist_is_a_typed_error(store: Store) -> None:
    queue_sweep(store, profile="nowhere")
    with pytest.raises(NotFound, match="no profile 'nowhere'"):
        run(store)
    queue_sweep(store, options={"no_such_key": "1"})
    with pytest.raises(BadUsage, match="no_such_key"):
        run(store)
    queue_sweep(store, profile="measure", model="/etc/passwd")
    with pytest.raises(BadUsage, match="built-in model"):
        run(store)
