"""Engines and transactions: SQLite in WAL mode, PostgreSQL through psycopg."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.orm import Session

from workloads.errors import BadUsage, MissingExtra

BUSY_TIMEOUT_S = 30.0
SQLITE_CONNECTIONS = 40
"""As many as an API has threads: opening one costs more than most reads, and an idle one costs next to nothing."""


def database_url(text: str) -> URL:
    """The URL with the driver we use: `postgresql://` and `postgres://` mean psycopg.

    Raises:
        BadUsage: not a database URL, or neither SQLite nor PostgreSQL.
    """
    try:
        url = make_url(text)
    except ArgumentError:
        raise BadUsage("is not a database URL such as sqlite:////path/captune.db", field="database_url") from None
    backend = url.drivername.split("+")[0]
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite":
        return url
    raise BadUsage(f"only SQLite and PostgreSQL are supported, not '{backend}'", field="database_url")


def make_engine(text: str) -> Engine:
    """An engine for `text`; a missing folder of a SQLite file is created. The caller disposes of it.

    Raises:
        BadUsage: see `database_url`.
        MissingExtra: PostgreSQL without psycopg.
    """
    url = database_url(text)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    try:
        return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    except (ImportError, NoSuchModuleError):
        raise MissingExtra.of("server", "PostgreSQL") from None


def _sqlite(url: URL) -> Engine:
    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    # isolation_level None: the driver must not begin transactions behind our back; see _begin.
    arguments = {"timeout": BUSY_TIMEOUT_S, "isolation_level": None}
    in_memory = url.database in (None, "", ":memory:")
    pooled: dict[str, Any] = {} if in_memory else {"pool_size": SQLITE_CONNECTIONS}
    engine = create_engine(url, connect_args=arguments, **pooled)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _begin)
    return engine


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    # A deferred transaction that reads and then writes fails at once when somebody else wrote in between;
    # one that takes the write lock at its start waits for busy_timeout instead.
    # Reads of the stores are single statements, consistent in themselves: a transaction around each would double the
    # times that a thread has to wait for the interpreter.
    options = connection.get_execution_options()
    if not options.get("captune_read", False):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("captune_write", False) else "BEGIN")


class Transactions:
    """Short transactions over one engine; safe to share between threads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writing = engine.execution_options(captune_write=True)
        self._reading = engine.execution_options(captune_read=True)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that only reads; what several statements of it see may have changed in between."""
        with Session(self._reading, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that commits at the end, or rolls back when its body raises."""
        with Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session
