"""Priorities, per-user limits, backoff, resuming, and schedules that fire once however many runners look."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from db.base import now
from db.queue import MAX_BACKOFF_S, backoff_s
from db.records import Claim, NewSweep, StoredSchedule
from db.store import Store
from tests.stores import read_result
from workloads.errors import BadUsage, Conflict, NotFound


@pytest.fixture
def trace_id(store: Store) -> str:
    return store.traces.add(read_result(20), "day.csv").id


def queue(store: Store, trace_id: str, **changes: Any) -> str:
    return store.sweeps.create(NewSweep(trace_id, "vllm@0.33.0", "bench", **changes)).id


def claimed(store: Store, per_user: int | None = None) -> str | None:
    claim = store.queue.claim("me", 60.0, per_user)
    return None if claim is None else claim.sweep_id


def test_the_urgent_job_comes_first_and_equals_by_age(store: Store, trace_id: str) -> None:
    normal, low, high = (queue(store, trace_id, priority=p) for p in (0, -5, 5))
    second = queue(store, trace_id)
    assert [claimed(store) for _ in range(4)] == [high, normal, second, low]


def test_a_job_waits_for_its_time(store: Store, trace_id: str) -> None:
    queue(store, trace_id, not_before=now() + timedelta(hours=1))
    assert store.queue.oldest_waiting_s() == 0.0
    due = queue(store, trace_id, not_before=now() - timedelta(hours=1))
    assert 0.0 < store.queue.oldest_waiting_s() < 60.0
    assert (claimed(store), claimed(store)) == (due, None)


def test_one_user_cannot_take_every_runner(store: Store, trace_id: str) -> None:
    mine = [queue(store, trace_id, owner="ann") for _ in range(3)]
    other, nobodys = queue(store, trace_id, owner="bob"), queue(store, trace_id)
    assert [claimed(store, 2) for _ in range(5)] == [*mine[:2], other, nobodys, None]
    store.sweeps.cancel(mine[0])
    assert claimed(store, 2) == mine[2]


def test_the_limit_holds_for_runners_that_claim_at_once(store: Store, trace_id: str) -> None:
    for _ in range(6):
        queue(store, trace_id, owner="ann")
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda _: claimed(store, 2), range(6)))
    assert len([sweep for sweep in got if sweep]) == 2


def test_lost_claims_wait_longer_and_longer_and_a_trial_ends_that() -> None:
    assert [backoff_s(n) for n in range(5)] == [0.0, 0.0, 2.0, 4.0, 8.0]
    assert backoff_s(1, 5.0) == 5.0 and backoff_s(3, 5.0) == 20.0
    assert backoff_s(50) == MAX_BACKOFF_S


def test_a_job_given_back_for_the_second_time_is_not_claimed_at_once(store: Store, trace_id: str) -> None:
    queue(store, trace_id)
    for expected in (True, False):
        claim = store.queue.claim("me", 60.0)
        assert claim is not None
        store.queue.release(claim, failed=True)
        again = store.queue.claim("me", 60.0)
        assert (again is not None) is expected
        if again is not None:
            store.queue.release(Claim(again.sweep_id, again.fence))


def test_a_failed_or_cancelled_job_is_resumed_with_its_trials(store: Store, trace_id: str) -> None:
    sweep = queue(store, trace_id)
    with pytest.raises(Conflict, match="queued"):
        store.sweeps.resume(sweep)
    claim = store.queue.claim("me", 60.0)
    assert claim is not None
    store.queue.record_trial(claim, 0, "complete", {"number": 0})
    store.queue.fail(claim, BadUsage("no"))
    resumed = store.sweeps.resume(sweep)
    assert (resumed.state, resumed.error_code, resumed.finished_at, resumed.progress_done) == ("queued", None, None, 1)
    store.sweeps.cancel(sweep)
    assert store.sweeps.resume(sweep).state == "queued"
    assert claimed(store) == sweep
    with pytest.raises(NotFound):
        store.sweeps.resume("nothing")


def soon(_cron: str, moment: datetime) -> datetime:
    return moment + timedelta(hours=1)


def job(schedule: StoredSchedule, trace_id: str) -> NewSweep:
    return NewSweep(trace_id, "vllm@0.33.0", "bench", schedule_id=schedule.id, owner=schedule.owner)


def schedule(store: Store, **changes: Any) -> StoredSchedule:
    values: dict[str, Any] = {"name": "nightly", "job": {}, "cron": None, "trace_name": None, "next_at": None}
    return store.schedules.create_once(None, **{**values, "owner": "ann", **changes})[0]


def test_a_cron_schedule_fires_once_for_all_runners_and_then_waits(store: Store, trace_id: str) -> None:
    made = schedule(store, cron="* * * * *", next_at=now(), job={"trace_id": trace_id})
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda _: store.schedules.fire(soon, job), range(4))) == 1
    sweep = store.sweeps.page().items[0]
    assert (sweep.trace_id, sweep.schedule_id, sweep.owner) == (trace_id, made.id, "ann")
    after = store.schedules.get(made.id)
    assert after.next_at is not None and after.next_at > now() and after.fired_at is not None


def test_a_cron_schedule_takes_the_newest_trace_of_a_name(store: Store, trace_id: str) -> None:
    newest = store.traces.add(read_result(20, seed=2), "day.csv").id
    schedule(store, cron="* * * * *", next_at=now(), trace_name="day.csv")
    missing = schedule(store, cron="* * * * *", next_at=now(), trace_name="night.csv")
    assert store.schedules.fire(soon, job) == 1
    assert [sweep.trace_id for sweep in store.sweeps.page().items] == [newest]
    assert store.schedules.get(missing.id).last_error == "there is no trace named 'night.csv'"


def test_every_new_upload_of_a_name_is_tuned_once(store: Store, trace_id: str) -> None:
    made = schedule(store, trace_name="day.csv")
    assert store.schedules.fire(soon, job) == 0
    store.traces.add(read_result(20), "day.csv")  # the same content: no new trace
    store.traces.add(read_result(20, seed=3), "other.csv")
    assert store.schedules.fire(soon, job) == 0
    new = [store.traces.add(read_result(20, seed=seed), "day.csv").id for seed in (4, 5)]
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda _: store.schedules.fire(soon, job), range(4))) == 2
    assert sorted(str(sweep.trace_id) for sweep in store.sweeps.page().items) == sorted(new)
    assert store.schedules.fire(soon, job) == 0
    store.schedules.delete(made.id)
    store.traces.add(read_result(20, seed=6), "day.csv")
    assert store.schedules.fire(soon, job) == 0
