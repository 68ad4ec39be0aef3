"""The schema: models and migrations agree, and Optuna's tables beside ours are left alone."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, text

from db.base import PREFIX
from db.migrations.upgrade import differences, downgrade, revision, upgrade, upgrade_engine
from db.records import NewMeasurement
from db.session import make_engine
from db.store import Store
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
        assert revision(connection) == "0002"
    engine.dispose()


TABLES = ("captune_traces", "captune_profiles", "captune_sweeps", "captune_trials", "captune_recommendations")


def old_database(url: str, assets: Path) -> dict[str, int]:
    """Fill an empty database with what a released schema left behind; rows of each table."""
    script = (assets / "schema-0001.sql").read_text()
    engine = make_engine(url)
    if engine.dialect.name == "postgresql":
        upgrade_engine(engine, "0001")
        statements = re.split(r";\n(?=INSERT|CREATE|COMMIT)", script)
        order = [each for table in TABLES for each in statements if each.startswith(f'INSERT INTO "{table}"')]
        with engine.begin() as connection:
            for statement in order:
                connection.exec_driver_sql(statement)
    else:
        sqlite3.connect(str(engine.url.database)).executescript(script)
    kept = rows(engine)
    engine.dispose()
    return kept


def rows(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {table: connection.scalar(text(f"SELECT count(*) FROM {table}")) or 0 for table in TABLES}


def test_an_old_database_is_upgraded_with_everything_in_it(database_url: str, tmp_path: Path, assets: Path) -> None:
    before = old_database(database_url, assets)
    assert before == {
        "captune_traces": 1,
        "captune_profiles": 1,
        "captune_sweeps": 3,
        "captune_trials": 3,
        "captune_recommendations": 1,
    }
    with Store(database_url, tmp_path) as store:
        sweeps = {sweep.state: sweep for sweep in store.sweeps.page().items}
        assert set(sweeps) == {"complete", "failed", "queued"}
        assert {(sweep.kind, sweep.priority, sweep.owner) for sweep in sweeps.values()} == {("tune", 0, None)}
        assert [trial.number for trial in store.sweeps.trials(sweeps["complete"].id)] == [0, 1]
        recommendation = store.recommendations.of_sweep(sweeps["complete"].id)
        assert recommendation is not None and recommendation.document["lists"] == {"capture": [1, 2]}
        claim = store.queue.claim("new", 60.0)
        assert claim is not None and claim.sweep_id == sweeps["queued"].id
    engine = make_engine(database_url)
    assert differences(engine) == []
    assert rows(engine) == before
    engine.dispose()


def test_a_downgrade_keeps_what_the_older_schema_can_hold(database_url: str, tmp_path: Path, assets: Path) -> None:
    before = old_database(database_url, assets)
    with Store(database_url, tmp_path) as store:
        store.sweeps.create_once(NewMeasurement("tiny-llama", "mine"), None)
        store.tokens.create("me", "read")
    engine = make_engine(database_url)
    downgrade(engine, "0001")
    assert rows(engine) == before
    assert "captune_tokens" not in inspect(engine).get_table_names()
    upgrade_engine(engine)
    assert differences(engine) == []
    assert rows(engine) == before
    engine.dispose()


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
