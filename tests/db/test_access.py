"""Tokens, audit, idempotency keys and retention."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import text

from db.base import now
from db.idempotency import KeyReused
from db.records import Key, NewMeasurement, NewSweep
from db.session import make_engine
from db.store import Store
from db.sweeps import QueueFull
from db.workers import SeenWorker
from tests.stores import read_result
from workloads.errors import BadUsage, NotFound


def execute(url: str, statement: str, **values: object) -> list[tuple[object, ...]]:
    engine = make_engine(url)
    with engine.execution_options(captune_write=True).begin() as connection:
        result = connection.execute(text(statement), values)
        found = [tuple(row) for row in result] if result.returns_rows else []
    engine.dispose()
    return found


def test_a_token_is_found_by_its_text_and_kept_as_a_digest_only(store: Store, database_url: str) -> None:
    stored, secret = store.tokens.create("ci", "write")
    found = store.tokens.find(secret)
    assert found is not None and (found.id, found.scope) == (stored.id, "write")
    assert store.tokens.find(secret[:-1]) is None and store.tokens.find("") is None
    kept = execute(database_url, "SELECT * FROM captune_tokens")
    assert secret not in str(kept) and secret.removeprefix("captune_") not in str(kept)
    assert store.tokens.list()[0].used_at is not None


def test_a_token_ends_when_it_expires_or_is_revoked(store: Store) -> None:
    _, gone = store.tokens.create("old", "admin", timedelta(seconds=-1))
    assert store.tokens.find(gone) is None
    live, secret = store.tokens.create("live", "admin", timedelta(days=1))
    assert store.tokens.find(secret) is not None
    at = store.tokens.revoke(live.id).revoked_at
    assert store.tokens.find(secret) is None
    assert store.tokens.revoke(live.id).revoked_at == at is not None
    with pytest.raises(NotFound):
        store.tokens.revoke("nothing")
    with pytest.raises(BadUsage, match="name"):
        store.tokens.create(" ", "read")


def test_the_audit_book_is_read_newest_first(store: Store) -> None:
    for number in range(3):
        store.audit.add("ci", "POST", f"/api/v1/sweeps/{number}\n", 201)
    page = store.audit.page(2)
    assert [line.target for line in page.items] == ["/api/v1/sweeps/2?", "/api/v1/sweeps/1?"]
    assert len(store.audit.page(2, page.next_after).items) == 1


def new_sweep(store: Store, **changes: object) -> NewSweep:
    trace = store.traces.add(read_result(20), "day.csv")
    return NewSweep(trace.id, "vllm@0.33.0", "bench", **changes)  # type: ignore[arg-type]


def test_one_key_makes_one_job_also_when_asked_at_once(store: Store) -> None:
    new, key = new_sweep(store), Key("ci", "k", "a" * 64)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: store.sweeps.create_once(new, key), range(8)))
    assert len({sweep.id for sweep, _ in made}) == 1
    assert [before for _, before in made].count(False) == 1
    assert len(store.sweeps.page().items) == 1
    assert store.sweeps.create_once(new, Key("other", "k", "a" * 64))[1] is False
    with pytest.raises(KeyReused, match="another request"):
        store.sweeps.create_once(new, Key("ci", "k", "b" * 64))


def test_a_key_is_bound_to_what_was_made_by_content(store: Store) -> None:
    assert not store.idempotency.remember(Key("ci", "k", "a" * 64), "trace")
    assert store.idempotency.remember(Key("ci", "k", "a" * 64), "trace")
    with pytest.raises(KeyReused):
        store.idempotency.remember(Key("ci", "k", "b" * 64), "trace")


def test_one_owner_may_have_so_many_jobs_waiting_and_no_more(store: Store) -> None:
    new = new_sweep(store, owner="ci")
    store.sweeps.create_once(new, None, most_queued=1)
    with pytest.raises(QueueFull, match="1 jobs waiting"):
        store.sweeps.create_once(new, None, most_queued=1)
    store.sweeps.create_once(new_sweep(store, owner="someone else"), None, most_queued=1)


def test_retention_removes_what_has_ended_long_ago_and_nothing_else(store: Store, database_url: str) -> None:
    new = new_sweep(store)
    for _ in range(2):
        store.sweeps.create(new)
        claim = store.queue.claim("me", 60.0)
        assert claim is not None
        store.queue.record_trial(claim, 0, "complete", {"number": 0})
        store.queue.complete(claim, {"lists": {"capture": [1]}}, "try")
    old, waiting = claim.sweep_id, store.sweeps.create(new)
    long_ago = now() - timedelta(days=40)
    statement = "UPDATE captune_sweeps SET finished_at = :at, created_at = :at WHERE id = :id"
    execute(database_url, statement, at=long_ago.isoformat(sep=" "), id=old)
    store.audit.add("me", "POST", "/", 200)
    removed = store.retention.prune(timedelta(days=30))
    assert (removed.sweeps, removed.audit) == (1, 0)
    assert {sweep.state for sweep in store.sweeps.page().items} == {"complete", "queued"}
    with pytest.raises(NotFound):
        store.sweeps.get(old)
    assert store.sweeps.get(waiting.id).state == "queued"
    assert len(store.recommendations.page().items) == 2


def test_workers_are_listed_with_what_they_do(store: Store, database_url: str) -> None:
    gpu = SeenWorker("node-1", "0: NVIDIA Test", 1000.0, driver="600", torch="2.13", ray="2.60", python="3.11")
    store.workers.seen([gpu, SeenWorker("node-2", "cpu", refused="Python 3.12 there, 3.11 here")])
    store.workers.works(gpu, "abc", 64)
    busy, refused = store.workers.list()
    assert (busy.state, busy.sweep_id, busy.current_size, busy.torch) == ("busy", "abc", 64, "2.13")
    assert (refused.state, refused.last_error) == ("refused", "Python 3.12 there, 3.11 here")
    store.workers.seen([gpu])
    assert store.workers.list()[0].state == "busy"
    store.workers.rests(gpu, "out of memory")
    idle = store.workers.list()[0]
    assert (idle.state, idle.last_error, idle.current_size) == ("idle", "out of memory", None)
    an_hour_ago = (now() - timedelta(hours=1)).isoformat(sep=" ")
    execute(database_url, "UPDATE captune_workers SET seen_at = :at", at=an_hour_ago)
    assert store.workers.list()[0].state == "lost"


def test_a_measurement_is_a_job_of_its_own_kind(store: Store) -> None:
    job, _ = store.sweeps.create_once(NewMeasurement("tiny-llama", "mine", owner="ci"), None)
    assert store.sweeps.page().items == []
    assert [item.id for item in store.sweeps.page(kind="measure").items] == [job.id]
    with pytest.raises(NotFound, match="no sweep"):
        store.sweeps.get(job.id, kind="tune")
    claim = store.queue.claim("me", 60.0)
    assert claim is not None
    store.queue.finish(claim)
    assert store.sweeps.get(job.id).state == "complete"
