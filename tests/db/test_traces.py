"""Stored traces: content-addressed, exact, safe to delete."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event

from db.records import NewSweep
from db.store import Store
from tests.stores import read_result
from workloads.errors import BadInput, BadUsage, Conflict, NotFound, Unavailable
from workloads.traces.records import EngineObservation, RowCount, StepTrace


def step_trace(padded: int = 0) -> StepTrace:
    rows = 5
    return StepTrace(
        size=np.arange(1, rows + 1),
        steps=np.ones(rows, dtype=np.int64),
        family_index=np.zeros(rows, dtype=np.int8),
        start_s=np.full(rows, np.nan),
        step_ms=np.full(rows, np.nan),
        kv_tokens=np.full(rows, np.nan),
        padded_size=np.full(rows, padded),
        fallback=np.full(rows, -1, dtype=np.int8),
        families=("decode_full",),
        units=("requests",),
        origin="census",
    )


def test_a_trace_comes_back_as_it_was_read(store: Store) -> None:
    read = read_result()
    stored = store.traces.add(read, "day.csv")
    loaded = store.traces.load(stored.id)
    assert loaded.traffic.digest() == read.traffic.digest()
    assert (loaded.format, loaded.kind, loaded.rows, loaded.notes) == (read.format, read.kind, read.rows, read.notes)
    assert store.traces.get(stored.id) == stored
    assert stored.span_s == pytest.approx(read.traffic.span_s)


def test_the_same_columns_are_the_same_trace(store: Store) -> None:
    first = store.traces.add(read_result(), "first.csv")
    second = store.traces.add(read_result(), "second.csv")
    assert first == second
    assert len(store.traces.page().items) == 1


def test_equal_steps_under_different_lists_are_different_traces(store: Store) -> None:
    rows = RowCount(5, 5)
    base = replace(read_result(), kind="steps", format="sglang-log", traffic=step_trace(), rows=rows)
    one = replace(base, observation=EngineObservation("sglang", "0.5.23", {"decode": (1, 2, 4)}, {"tp_size": "2"}))
    two = replace(base, observation=EngineObservation("sglang", "0.5.23", {"decode": (1, 2, 8)}))
    ids = {store.traces.add(read, "server.log").id for read in (base, one, two)}
    assert len(ids) == 3
    ids.add(store.traces.add(replace(base, traffic=step_trace(padded=8)), "server.log").id)
    assert len(ids) == 4
    stored = store.traces.add(one, "server.log")
    assert store.traces.load(stored.id).observation == one.observation


def test_a_name_cannot_carry_control_characters(store: Store) -> None:
    assert store.traces.add(read_result(), "a\x00b\nc\u202e.csv").name == "a b c .csv"


def test_pages_are_newest_first_and_complete(store: Store) -> None:
    ids = [store.traces.add(read_result(20, seed), f"{seed}.csv").id for seed in range(7)]
    seen, cursor = [], None
    while True:
        page = store.traces.page(limit=3, after=cursor)
        seen += [trace.id for trace in page.items]
        cursor = page.next_after
        if cursor is None:
            break
    assert seen == ids[::-1]
    with pytest.raises(BadUsage, match="not a cursor"):
        store.traces.page(after="yesterday")


def test_traces_are_found_by_a_whole_tag(store: Store) -> None:
    one, two, three = (store.traces.add(read_result(20, seed), f"{seed}.csv") for seed in range(3))
    assert list(one.tags) == []
    assert list(store.traces.change(one.id, tags=["EU west", "chat", "chat", "50%_"]).tags) == [
        "50%_",
        "chat",
        "eu west",
    ]
    store.traces.change(two.id, tags=["chat-long", "été"])
    found = {
        tag: [trace.id for trace in store.traces.page(tag=tag).items] for tag in ("chat", "Eu West", "été", "50%_")
    }
    assert found == {"chat": [one.id], "Eu West": [one.id], "été": [two.id], "50%_": [one.id]}
    assert not store.traces.page(tag="west").items and not store.traces.page(tag="5%_").items
    assert store.traces.change(three.id, name="night.csv").name == "night.csv"
    assert list(store.traces.change(one.id, tags=[]).tags) == [] and not store.traces.page(tag="chat").items
    with pytest.raises(BadInput, match="tag needs a letter"):
        store.traces.change(one.id, tags=['"'])


def test_the_evidence_of_recorded_steps_is_kept_beside_them(store: Store) -> None:
    rows = RowCount(5, 5, {}, {})
    steps = replace(read_result(), kind="steps", format="sglang-log", traffic=step_trace(), rows=rows)
    assert store.traces.add(steps, "server.log").origin == "census"
    assert store.traces.add(read_result(), "day.csv").origin is None


def test_a_deleted_trace_is_gone_with_its_file(store: Store, tmp_path: Path) -> None:
    stored = store.traces.add(read_result(), "day.csv")
    store.traces.delete(stored.id)
    assert list((tmp_path / "data" / "traces").iterdir()) == []
    with pytest.raises(NotFound):
        store.traces.load(stored.id)
    with pytest.raises(NotFound):
        store.traces.delete(stored.id)


def test_a_trace_in_use_stays_until_its_sweep_ends(store: Store) -> None:
    stored = store.traces.add(read_result(), "day.csv")
    sweep = store.sweeps.create(NewSweep(stored.id, "vllm@0.33.0", "bench"))
    with pytest.raises(Conflict, match=sweep.id):
        store.traces.delete(stored.id)
    store.sweeps.cancel(sweep.id)
    store.traces.delete(stored.id)
    kept = store.sweeps.get(sweep.id)
    assert (kept.trace_id, kept.trace_name) == (None, "day.csv")


def test_a_lost_file_is_unavailable_and_comes_back_with_the_next_upload(store: Store, tmp_path: Path) -> None:
    stored = store.traces.add(read_result(), "day.csv")
    next((tmp_path / "data" / "traces").iterdir()).unlink()
    with pytest.raises(Unavailable, match=stored.id):
        store.traces.load(stored.id)
    store.traces.add(read_result(), "day.csv")
    assert len(store.traces.load(stored.id).traffic) == 400


def test_a_deletion_that_fails_loses_nothing(store: Store) -> None:
    stored = store.traces.add(read_result(), "day.csv")

    def fail(_connection: object) -> None:
        raise OSError("no room for the commit")

    event.listen(store.engine, "commit", fail)
    with pytest.raises(OSError):
        store.traces.delete(stored.id)
    event.remove(store.engine, "commit", fail)
    assert store.traces.load(stored.id).traffic.digest() == read_result().traffic.digest()


def test_the_same_trace_from_many_at_once_is_one(store: Store) -> None:
    read = read_result()
    with ThreadPoolExecutor(8) as pool:
        ids = {stored.id for stored in pool.map(lambda _: store.traces.add(read, "day.csv"), range(16))}
    assert len(ids) == 1 and [item.id for item in store.traces.page().items] == list(ids)
