"""Bring a database to the newest schema, from code: no alembic.ini is needed."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

import db.models  # noqa: F401  (fills Base.metadata)
from db.base import PREFIX, Base
from db.session import make_engine
from workloads.errors import Conflict

VERSION_TABLE = PREFIX + "alembic_version"
_LOCK = 0x6361_7074  # "capt": services that start together must not migrate together


def upgrade(url: str) -> None:
    """Upgrade the database at `url` to the newest schema; creates it on an empty database."""
    engine = make_engine(url)
    try:
        upgrade_engine(engine)
    finally:
        engine.dispose()


def upgrade_engine(engine: Engine, target: str = "head") -> None:
    """See `upgrade`. Does nothing, and takes no lock, when the schema is current.

    Raises:
        Conflict: a newer Captune made this schema.
    """
    with engine.connect() as connection:
        found = revision(connection)
    if found == _head():
        return
    if found is not None and found not in _known():
        raise Conflict(f"the database has schema {found}, which a newer Captune made; run that version, or restore")
    with engine.execution_options(captune_write=True).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        command.upgrade(_config(connection), target)


def downgrade(engine: Engine, target: str) -> None:
    """Back to revision `target`, or `base`; what the older schema cannot hold is lost."""
    with engine.execution_options(captune_write=True).begin() as connection:
        command.downgrade(_config(connection), target)


def revision(connection: Connection) -> str | None:
    """The schema's revision; None on an empty database."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def differences(engine: Engine) -> list[object]:
    """What separates the database from the models; empty when they agree. Optuna's tables are not looked at."""
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "include_name": is_ours, "compare_type": True}
        )
        return list(compare_metadata(context, Base.metadata))


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Alembic's `include_name`: only tables with our prefix are compared."""
    return kind != "table" or (name is not None and name.startswith(PREFIX))


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _known() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(_config(None)).walk_revisions()}


def _head() -> str | None:
    return ScriptDirectory.from_config(_config(None)).get_current_head()
