"""Store: everything that is remembered, behind one object."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sqlalchemy import Engine, text
from sqlalchemy.exc import InterfaceError, OperationalError

from db.audit import AuditStore
from db.idempotency import IdempotencyStore
from db.migrations.upgrade import upgrade_engine
from db.profiles import ProfileStore
from db.queue import SweepQueue
from db.recommendations import RecommendationStore
from db.retention import RetentionStore
from db.schedules import ScheduleStore
from db.session import BUSY_TIMEOUT_S, Transactions, make_engine
from db.sweeps import SweepStore
from db.tokens import TokenStore
from db.traces import TraceStore
from db.workers import WorkerStore
from workloads.errors import Unavailable

if TYPE_CHECKING:
    from optuna.storages import RDBStorage


class Store:
    """The stores of all aggregates over one database and one data folder; safe to share between threads.

    Opening it brings the schema up to date. Use it as a context manager, or call `close`.

    Raises:
        BadUsage: not a database URL we support.
        Unavailable: the database cannot be reached.
    """

    def __init__(self, url: str, data_dir: Path) -> None:
        self.url = url
        self._transactions = Transactions(make_engine(url))
        try:
            upgrade_engine(self._transactions.engine)
        except (OperationalError, InterfaceError) as error:
            self.close()
            raise Unavailable(f"the database cannot be opened: {error.orig}") from None
        except BaseException:
            self.close()
            raise
        self.traces = TraceStore(self._transactions, data_dir / "traces")
        self.profiles = ProfileStore(self._transactions)
        self.sweeps = SweepStore(self._transactions)
        self.queue = SweepQueue(self._transactions)
        self.recommendations = RecommendationStore(self._transactions)
        self.schedules = ScheduleStore(self._transactions)
        self.tokens = TokenStore(self._transactions)
        self.audit = AuditStore(self._transactions)
        self.idempotency = IdempotencyStore(self._transactions)
        self.workers = WorkerStore(self._transactions)
        self.retention = RetentionStore(self._transactions)

    @property
    def engine(self) -> Engine:
        """The database itself, for backups."""
        return self._transactions.engine

    def check(self) -> None:
        """Raises:
        Unavailable: the database does not answer now.
        """
        try:
            with self._transactions.read() as session:
                session.execute(text("SELECT 1"))
        except (OperationalError, InterfaceError) as error:
            raise Unavailable(f"the database does not answer: {' '.join(str(error.orig).split())}") from None

    def optuna_storage(self) -> RDBStorage:
        """Optuna's own storage in the same database. The caller disposes of its engine (`storage.engine.dispose()`)."""
        from optuna.storages import RDBStorage

        engine = self._transactions.engine
        arguments = {"connect_args": {"timeout": BUSY_TIMEOUT_S}} if engine.dialect.name == "sqlite" else {}
        return RDBStorage(engine.url.render_as_string(hide_password=False), engine_kwargs=arguments)

    def close(self) -> None:
        """Close every connection."""
        self._transactions.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
