"""The worker inventory: devices of nodes, what they run, and what they do now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy import select

from db.base import now
from db.models import WorkerRow
from db.records import StoredWorker, WorkerState, digest_of, record_of
from db.session import Transactions

STALE_AFTER = timedelta(minutes=2)
"""A worker that nobody has seen for so long is listed as lost."""


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """One device as a look at the cluster found it. `node` and `device` together are its identity."""

    node: str
    device: str
    memory_mib: float | None = None
    driver: str | None = None
    torch: str | None = None
    ray: str | None = None
    python: str | None = None
    refused: str | None = None


class WorkerStore:
    """Reports of workers by node and device."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def seen(self, workers: Sequence[SeenWorker]) -> None:
        """A look at the cluster: what is there is kept, what was busy stays so, a refused node says why."""
        with self._db.write() as session:
            for worker in workers:
                row = session.get(WorkerRow, _id_of(worker)) or WorkerRow(
                    id=_id_of(worker), created_at=now(), node=worker.node, device=worker.device, state="idle"
                )
                row.memory_mib, row.driver, row.torch = worker.memory_mib, worker.driver, worker.torch
                row.ray, row.python, row.seen_at = worker.ray, worker.python, now()
                if worker.refused is not None:
                    row.state, row.last_error = "refused", worker.refused
                elif row.state in ("lost", "refused"):
                    row.state = "idle"
                session.add(row)

    def works(self, worker: SeenWorker, sweep_id: str, size: int | None) -> None:
        """A worker is busy with a size of a sweep."""
        self._set(worker, "busy", sweep_id, size, None)

    def rests(self, worker: SeenWorker, error: str | None = None) -> None:
        """A worker has ended its job; `error` is why it ended badly."""
        self._set(worker, "idle", None, None, error)

    def lost(self, worker: SeenWorker, error: str) -> None:
        """A worker's process or node died."""
        self._set(worker, "lost", None, None, error)

    def list(self) -> Sequence[StoredWorker]:
        """By node and device; what was not seen lately is lost."""
        with self._db.read() as session:
            rows = session.scalars(select(WorkerRow).order_by(WorkerRow.node, WorkerRow.device))
            return [_as_of_now(row) for row in rows]

    def _set(
        self, worker: SeenWorker, state: WorkerState, sweep_id: str | None, size: int | None, error: str | None
    ) -> None:
        self.seen([worker])
        with self._db.write() as session:
            row = session.get(WorkerRow, _id_of(worker))
            if row is not None:
                row.state, row.sweep_id, row.current_size = state, sweep_id, size
                row.last_error = error or row.last_error


def _id_of(worker: SeenWorker) -> str:
    return digest_of([worker.node, worker.device])[:12]


def _as_of_now(row: WorkerRow) -> StoredWorker:
    stale = row.state in ("idle", "busy") and now() - row.seen_at > STALE_AFTER
    record = record_of(StoredWorker, row)
    if not stale:
        return record
    return replace(record, state="lost", sweep_id=None, current_size=None)
