"""Backup and restore, also from one kind of database to the other."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from db.backup import backup, restore
from db.records import NewSweep
from db.store import Store
from tests.stores import cost_profile, read_result
from workloads.errors import BadInput, Conflict, Unavailable


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Path:
    """A backup of a store with something of everything."""
    trace = store.traces.add(read_result(20), "day.csv")
    store.profiles.add(cost_profile(largest=4))
    for _ in range(2):
        store.sweeps.create(NewSweep(trace.id, "vllm@0.33.0", "bench", {"max_num_seqs": "64"}))
    claim = store.queue.claim("me", 60.0)
    assert claim is not None
    store.queue.record_trial(claim, 0, "complete", {"number": 0})
    store.queue.complete(claim, {"lists": {"capture": [1, 2]}}, "try")
    store.tokens.create("ci", "write")
    file = tmp_path / "backup.zip"
    result = backup(store, tmp_path / "data", file)
    assert (result.traces, result.rows["sweeps"], result.rows["trials"]) == (1, 2, 1)
    return file


def test_everything_comes_back_on_the_other_database(store: Store, filled: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(filled.stat().st_mode) == 0o600
    with Store(f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "other") as other:
        restore(other, tmp_path / "other", filled)
        for before, after in (
            (store.sweeps.page().items, other.sweeps.page().items),
            (store.traces.page().items, other.traces.page().items),
            (store.profiles.page().items, other.profiles.page().items),
            (store.recommendations.page().items, other.recommendations.page().items),
            (store.tokens.list(), other.tokens.list()),
        ):
            assert list(before) == list(after) and before
        trace = store.traces.page().items[0]
        assert other.traces.load(trace.id).traffic.digest() == store.traces.load(trace.id).traffic.digest()
        assert other.queue.claim("me", 60.0) is not None
        with pytest.raises(Conflict, match="empty database"):
            restore(other, tmp_path / "other", filled)


def test_a_backup_made_on_sqlite_fills_an_empty_postgresql_and_back(database_url: str, tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path / 'from.db'}", tmp_path / "from") as source:
        source.traces.add(read_result(20), "day.csv")
        backup(source, tmp_path / "from", tmp_path / "b.zip")
        with Store(database_url, tmp_path / "to") as target:
            restore(target, tmp_path / "to", tmp_path / "b.zip")
            assert list(target.traces.page().items) == list(source.traces.page().items)


def test_a_damaged_or_foreign_file_changes_nothing(store: Store, filled: Path, tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "other") as other:
        cut = tmp_path / "cut.zip"
        cut.write_bytes(filled.read_bytes()[:-100])
        with pytest.raises(BadInput, match="not a backup"):
            restore(other, tmp_path / "other", cut)
        for change, word in (
            ({"about.json": b'{"format": 1, "schema": "0001"}'}, "schema 0001"),
            ({"tables/trials.jsonl": b"{"}, "trials.jsonl is damaged"),
            ({"traces/../../evil.parquet": b"x"}, "not the name of a trace"),
        ):
            with pytest.raises(BadInput, match=word):
                restore(other, tmp_path / "other", changed(filled, tmp_path, change))
            assert other.sweeps.page().items == [] and other.tokens.list() == []
        assert not (tmp_path / "evil.parquet").exists()


def changed(file: Path, folder: Path, change: dict[str, bytes]) -> Path:
    made = folder / "changed.zip"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        for name in sorted({*old.namelist(), *change}):
            new.writestr(name, change[name] if name in change else old.read(name))
    return made


def test_a_place_that_cannot_be_written_is_said(store: Store, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be written"):
        backup(store, tmp_path, tmp_path / "nowhere" / "b.zip")
