"""The queue: every sweep has one runner at a time, and a runner that lost its lease can write nothing."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from db.queue import MAX_ATTEMPTS, LeaseLost
from db.records import Claim, NewSweep, StoredSweep
from db.session import make_engine
from db.store import Store
from tests.stores import read_result
from workloads.errors import BadUsage, Conflict, NotFound

LEASE_S = 60.0
LISTS = {"lists": {"capture": [1, 2]}}


@pytest.fixture
def trace_id(store: Store) -> str:
    return store.traces.add(read_result(20), "day.csv").id


def queue_sweep(store: Store, trace_id: str) -> StoredSweep:
    return store.sweeps.create(NewSweep(trace_id, "vllm@0.33.0", "bench", {"max_num_seqs": "64"}, {"load": 2.0}))


def claim(store: Store, lease_s: float = LEASE_S, owner: str = "me") -> Claim:
    claimed = store.queue.claim(owner, lease_s)
    assert claimed is not None
    return claimed


def test_a_sweep_goes_from_queued_to_complete(store: Store, trace_id: str) -> None:
    sweep = queue_sweep(store, trace_id)
    assert (sweep.state, sweep.options, sweep.serving) == ("queued", {"max_num_seqs": "64"}, {"load": 2.0})
    held = claim(store)
    assert store.sweeps.get(sweep.id).state == "running"
    store.queue.progress(held, "tuning")
    assert store.queue.record_trial(held, 0, "complete", {"number": 0})
    assert store.queue.record_trial(held, 1, "infeasible", {"number": 1})
    recommendation = store.queue.complete(held, LISTS, "try")
    ended = store.sweeps.get(sweep.id)
    assert (ended.state, ended.progress_done, ended.lease_owner) == ("complete", 2, None)
    assert ended.finished_at is not None and ended.started_at is not None
    assert store.recommendations.of_sweep(sweep.id) == recommendation
    assert (recommendation.engine, recommendation.options) == ("vllm@0.33.0", {"max_num_seqs": "64"})
    assert [trial.number for trial in store.sweeps.trials(sweep.id, after=0)] == [1]


def test_a_sweep_needs_its_trace(store: Store) -> None:
    with pytest.raises(NotFound, match="trace_id"):
        store.sweeps.create(NewSweep("nothing", "vllm@0.33.0", "bench"))


def test_the_oldest_job_is_claimed_first_and_only_once(store: Store, trace_id: str) -> None:
    ids = [queue_sweep(store, trace_id).id for _ in range(3)]
    assert [claim(store).sweep_id for _ in ids] == ids
    assert store.queue.claim("me", LEASE_S) is None


def test_many_runners_never_get_the_same_job(store: Store, trace_id: str) -> None:
    ids = {queue_sweep(store, trace_id).id for _ in range(24)}

    def work(owner: str) -> list[str]:
        mine = []
        while (held := store.queue.claim(owner, LEASE_S)) is not None:
            mine.append(held.sweep_id)
        return mine

    with ThreadPoolExecutor(6) as pool:
        claimed = Counter(sweep for part in pool.map(work, [f"runner {n}" for n in range(6)]) for sweep in part)
    assert set(claimed) == ids
    assert set(claimed.values()) == {1}


def test_a_dead_runner_loses_its_job_and_its_right_to_write(store: Store, trace_id: str) -> None:
    sweep = queue_sweep(store, trace_id)
    dead = claim(store, lease_s=0.01, owner="dead")
    store.queue.record_trial(dead, 0, "complete", {"by": "dead"})
    time.sleep(0.05)
    alive = claim(store, owner="alive")
    assert alive == Claim(sweep.id, dead.fence + 1)
    for write in (
        lambda: store.queue.renew(dead, LEASE_S),
        lambda: store.queue.progress(dead, "still here"),
        lambda: store.queue.record_trial(dead, 1, "complete", {}),
        lambda: store.queue.complete(dead, LISTS, "try"),
        lambda: store.queue.fail(dead, BadUsage("no")),
    ):
        with pytest.raises(LeaseLost):
            write()
    store.queue.release(dead)
    assert store.queue.holds(alive) and not store.queue.holds(dead)
    assert not store.queue.record_trial(alive, 0, "complete", {"by": "alive"})
    assert [trial.document for trial in store.sweeps.trials(sweep.id)] == [{"by": "dead"}]


def test_a_renewed_lease_does_not_run_out(store: Store, trace_id: str) -> None:
    queue_sweep(store, trace_id)
    held = claim(store, lease_s=0.01)
    store.queue.renew(held, LEASE_S)
    time.sleep(0.05)
    assert store.queue.claim("other", LEASE_S) is None


def test_a_cancelled_sweep_is_over_at_once(store: Store, trace_id: str) -> None:
    sweep = queue_sweep(store, trace_id)
    held = claim(store)
    assert store.sweeps.cancel(sweep.id).state == "cancelled"
    assert not store.queue.holds(held)
    with pytest.raises(LeaseLost):
        store.queue.record_trial(held, 0, "complete", {})
    store.queue.release(held)
    assert store.sweeps.cancel(sweep.id).state == "cancelled"
    assert store.queue.claim("me", LEASE_S) is None
    with pytest.raises(NotFound):
        store.sweeps.cancel("nothing")


def test_an_ended_sweep_cannot_be_cancelled(store: Store, trace_id: str) -> None:
    sweep = queue_sweep(store, trace_id)
    store.queue.complete(claim(store), LISTS, "try")
    with pytest.raises(Conflict, match="already ended \\(complete\\)"):
        store.sweeps.cancel(sweep.id)


def test_a_failure_keeps_the_fields_of_its_error(store: Store, trace_id: str) -> None:
    sweep = queue_sweep(store, trace_id)
    store.queue.fail(claim(store), BadUsage("no such key", file="x", line=3, field="set"))
    failed = store.sweeps.get(sweep.id)
    assert (failed.state, failed.error_code, failed.error_message) == ("failed", "bad_usage", "no such key")
    assert (failed.error_file, failed.error_line, failed.error_field) == ("x", 3, "set")


def test_a_released_job_waits_before_it_is_tried_again(store: Store, trace_id: str) -> None:
    queue_sweep(store, trace_id)
    store.queue.release(claim(store), failed=True, retry_after_s=60.0)
    assert store.queue.claim("me", LEASE_S) is None


def test_a_released_job_is_tried_again_after_its_wait(store: Store, trace_id: str) -> None:
    queue_sweep(store, trace_id)
    store.queue.release(claim(store), failed=True, retry_after_s=0.05)
    time.sleep(0.1)
    assert claim(store).fence == 2


def test_a_job_that_kills_every_runner_is_given_up(
    store: Store, trace_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.queue.BACKOFF_S", 0.0)  # the waits between are tested by themselves
    sweep = queue_sweep(store, trace_id)
    for _ in range(MAX_ATTEMPTS):
        store.queue.release(claim(store), failed=True)
    assert store.queue.claim("me", LEASE_S) is None
    assert "given up after 5 attempts" in (store.sweeps.get(sweep.id).error_message or "")


def test_attempts_that_bring_a_trial_or_end_in_good_order_do_not_count(store: Store, trace_id: str) -> None:
    queue_sweep(store, trace_id)
    for number in range(MAX_ATTEMPTS + 2):
        held = claim(store)
        store.queue.record_trial(held, number, "complete", {})
        store.queue.release(held, failed=True)
    for _ in range(MAX_ATTEMPTS + 2):
        store.queue.release(claim(store))
    assert store.queue.claim("me", LEASE_S) is not None


def test_sweeps_are_listed_by_state_and_trace(store: Store, trace_id: str) -> None:
    first, second = queue_sweep(store, trace_id), queue_sweep(store, trace_id)
    store.sweeps.cancel(first.id)
    assert [sweep.id for sweep in store.sweeps.page().items] == [second.id, first.id]
    assert [sweep.id for sweep in store.sweeps.page(state="cancelled").items] == [first.id]
    assert store.sweeps.page(trace_id="other").items == []
    assert store.sweeps.counts() == {"queued": 1, "cancelled": 1}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE captune_sweeps SET state = 'lost'",
        "UPDATE captune_sweeps SET state = 'running'",
        "UPDATE captune_sweeps SET state = 'failed', finished_at = created_at",
        "UPDATE captune_sweeps SET state = 'complete'",
        "UPDATE captune_sweeps SET trials = 0",
        "UPDATE captune_sweeps SET objective = 'luck'",
        "UPDATE captune_traces SET kind = 'picture'",
        "UPDATE captune_sweeps SET trace_id = 'nothing'",
    ],
)
def test_the_database_refuses_what_the_code_does_not_believe(
    store: Store, database_url: str, trace_id: str, statement: str
) -> None:
    queue_sweep(store, trace_id)
    engine = make_engine(database_url)
    try:
        with pytest.raises(IntegrityError), engine.begin() as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()
