"""The schema: models and migrations agree, and Optuna's tables beside ours are left alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import inspect

from db.base import PREFIX
from db.migrations.upgrade import differences, downgrade, revision, upgrade
from db.session import make_engine
from db.store import Store
from workloads.errors import BadUsage, Unavailable


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
        assert revision(connection) == "0001"
    engine.dispose()


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
