"""The schema: models and migrations agree, and Optuna's tables beside ours are left alone."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import IntegrityError

from db.base import PREFIX, Base
from db.migrations.upgrade import VERSION_TABLE, differences, downgrade, revision, upgrade, upgrade_engine
from db.records import NewSweep
from db.session import make_engine
from db.store import Store
from db.workers import SeenWorker
from tests.stores import read_result
from workloads.errors import BadUsage, Conflict, Unavailable


@pytest.fixture
def assets(repository: Path) -> Path:
    """Databases as released versions left them."""
    return repository / "tests" / "db" / "assets"


def test_a_migrated_database_has_exactly_the_tables_of_the_models(database_url: str) -> None:
    upgrade(database_url)
    engine = make_engine(database_url)
    assert differences(engine) == []
    engine.dispose()


def test_upgrading_twice_changes_nothing(database_url: str) -> None:
    upgrade(database_url)
    upgrade(database_url)
    engine = make_engine(database_url)
    with engine.connect() as connection:
        assert revision(connection) == "0004"
    engine.dispose()


RELEASED = ("0001", "0002")
"""Schemas that databases out there may have; a folder of assets holds one database of each."""


def old_database(url: str, assets: Path, schema: str) -> dict[str, int]:
    """Fill an empty database with what a released schema left behind; rows of each table."""
    script = (assets / f"schema-{schema}.sql").read_text()
    engine = make_engine(url)
    if engine.dialect.name == "postgresql":
        upgrade_engine(engine, schema)
        statements = re.split(r";\n(?=INSERT|CREATE|COMMIT)", script)
        order = [table.name for table in Base.metadata.sorted_tables]
        inserts = [each for table in order for each in statements if each.startswith(f'INSERT INTO "{table}"')]
        with engine.begin() as connection:
            for statement in inserts:
                connection.exec_driver_sql(statement)
    else:
        with closing(sqlite3.connect(str(engine.url.database))) as connection:
            connection.executescript(script)
    kept = rows(engine)
    engine.dispose()
    return kept


def rows(engine: Engine) -> dict[str, int]:
    """Rows of every table of ours that is there, but for the version."""
    names = sorted(name for name in inspect(engine).get_table_names() if name.startswith(PREFIX))
    with engine.connect() as connection:
        return {
            name.removeprefix(PREFIX): connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0
            for name in names
            if name != VERSION_TABLE
        }


def has_at_least(found: dict[str, int], before: dict[str, int]) -> bool:
    return {name: found.get(name) for name in before} == before


@pytest.mark.parametrize("schema", RELEASED)
def test_an_old_database_is_upgraded_with_everything_in_it(
    database_url: str, tmp_path: Path, assets: Path, schema: str
) -> None:
    before = old_database(database_url, assets, schema)
    core = {"traces": 1, "profiles": 1, "recommendations": 1}
    assert has_at_least(before, core) and all(before.values()), "an asset has data in every table"
    with Store(database_url, tmp_path) as store:
        sweeps = {sweep.state: sweep for sweep in store.sweeps.page().items}
        assert set(sweeps) == {"complete", "failed", "queued"}
        assert {(sweep.kind, dict(sweep.worker)) == ("tune", {}) for sweep in sweeps.values()} == {True}
        assert [trial.number for trial in store.sweeps.trials(sweeps["complete"].id)] == [0, 1]
        recommendation = store.recommendations.of_sweep(sweeps["complete"].id)
        assert recommendation is not None and recommendation.document["lists"] == {"capture": [1, 2]}
        claim = store.queue.claim("new", 60.0)
        assert claim is not None and claim.sweep_id == sweeps["queued"].id
    engine = make_engine(database_url)
    assert differences(engine) == []
    assert has_at_least(rows(engine), before)
    engine.dispose()


@pytest.mark.parametrize("schema", RELEASED)
def test_a_downgrade_keeps_what_the_older_schema_can_hold(
    database_url: str, tmp_path: Path, assets: Path, schema: str
) -> None:
    before = old_database(database_url, assets, schema)
    with Store(database_url, tmp_path) as store:
        store.workers.seen([SeenWorker("node", "cpu")])
    engine = make_engine(database_url)
    for target in (schema, "0001", "head", schema):  # down, further down, up again with what is left, and down
        (upgrade_engine if target == "head" else partial(downgrade, target=target))(engine)
    core = ("traces", "profiles", "trials", "recommendations")
    assert has_at_least(rows(engine), {name: before[name] for name in core})
    assert ("captune_tokens" in inspect(engine).get_table_names()) is (schema != "0001")
    upgrade_engine(engine)
    assert differences(engine) == []
    engine.dispose()


@pytest.mark.parametrize("sizes", [[2, 1], [1, 1], [0, 1], [-4, 8], [1, 2.5]])
def test_a_list_that_is_not_positive_and_increasing_is_refused_by_the_database(
    store: Store, sizes: list[float]
) -> None:
    trace = store.traces.add(read_result(20), "day.csv")
    store.sweeps.create(NewSweep(trace.id, "vllm@0.33.0", "bench"))
    claim = store.queue.claim("me", 60.0)
    assert claim is not None
    wrong = {"lists": {"capture": [1, 2], "draft": sizes}, "verdict": "try"}
    with pytest.raises(IntegrityError):
        store.queue.record_trial(claim, 0, "complete", wrong)
    with pytest.raises(IntegrityError):
        store.queue.complete(claim, wrong, "try")
    assert store.queue.record_trial(claim, 0, "infeasible", {"lists": {}})
    assert store.queue.record_trial(claim, 1, "failed", {"lists": None})
    assert store.queue.complete(claim, {**wrong, "lists": {"capture": [1, 8, 512], "draft": []}}, "try").id


def test_a_schema_from_the_future_is_left_alone(database_url: str, tmp_path: Path) -> None:
    upgrade(database_url)
    engine = make_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE captune_alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(Conflict, match="schema 9999, which a newer Captune made"):
        Store(database_url, tmp_path)


def test_a_downgrade_to_base_leaves_none_of_our_tables(database_url: str) -> None:
    upgrade(database_url)
    engine = make_engine(database_url)
    downgrade(engine, "base")
    left = [name for name in inspect(engine).get_table_names() if name.startswith(PREFIX)]
    assert left == [f"{PREFIX}alembic_version"]
    engine.dispose()


@pytest.mark.parametrize("optuna_first", [True, False])
def test_optuna_lives_in_the_same_database(database_url: str, tmp_path: Path, optuna_first: bool) -> None:
    if optuna_first:
        from optuna.storages import RDBStorage

        alone = RDBStorage(str(make_engine(database_url).url.render_as_string(hide_password=False)))
        alone.engine.dispose()
    with Store(database_url, tmp_path) as store:
        storage = store.optuna_storage()
        names = set(inspect(storage.engine).get_table_names())
        storage.engine.dispose()
    assert {"trials", "studies", "alembic_version"} <= names
    assert {f"{PREFIX}trials", f"{PREFIX}alembic_version"} <= names
    engine = make_engine(database_url)
    assert differences(engine) == []
    engine.dispose()


def test_services_that_start_together_migrate_once(database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(upgrade, [database_url] * 4))
    engine = make_engine(database_url)
    assert differences(engine) == []
    engine.dispose()


def test_other_databases_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="only SQLite and PostgreSQL are supported, not 'mysql'"):
        Store("mysql://localhost/x", tmp_path)
    with pytest.raises(BadUsage, match="is not a database URL"):
        Store("captune.db", tmp_path)


def test_a_database_that_does_not_answer_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened"):
        Store("postgresql://nobody@127.0.0.1:1/none", tmp_path)
