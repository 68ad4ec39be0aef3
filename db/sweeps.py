"""Stored sweeps: create, list, cancel, and their trials. The queue that runners share is `db.queue`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import func, select

from db.base import now
from db.models import SweepRow, TraceRow, TrialRow
from db.paging import Page, page_of
from db.records import ENDED, NewSweep, StoredSweep, StoredTrial, SweepState, record_of
from db.session import Transactions
from workloads.errors import Conflict, NotFound


class SweepStore:
    """Tuning jobs as their owners see them."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def create(self, new: NewSweep) -> StoredSweep:
        """Queue a job.

        Raises:
            NotFound: the trace is not stored.
        """
        with self._db.write() as session:
            trace = session.get(TraceRow, new.trace_id)
            if trace is None:
                raise NotFound(f"there is no trace '{new.trace_id}'", field="trace_id")
            row = SweepRow(
                **{**asdict(new), "options": dict(new.options)},
                id=secrets.token_hex(6),
                trace_name=trace.name,
                state="queued",
                created_at=now(),
            )
            session.add(row)
            session.flush()
            return record_of(StoredSweep, row)

    def get(self, sweep_id: str) -> StoredSweep:
        """Raises:
        NotFound: no such sweep.
        """
        with self._db.read() as session:
            row = session.get(SweepRow, sweep_id)
            if row is None:
                raise NotFound(f"there is no sweep '{sweep_id}'")
            return record_of(StoredSweep, row)

    def page(
        self, limit: int = 50, after: str | None = None, *, state: SweepState | None = None, trace_id: str | None = None
    ) -> Page[StoredSweep]:
        """Newest first; `after` is the cursor of the page before."""
        where = []
        if state is not None:
            where.append(SweepRow.state == state)
        if trace_id is not None:
            where.append(SweepRow.trace_id == trace_id)
        with self._db.read() as session:
            return page_of(session, SweepRow, StoredSweep, limit, after, where)

    def cancel(self, sweep_id: str) -> StoredSweep:
        """End a job now: from here on its runner can write nothing more and stops within seconds.

        Raises:
            NotFound: no such sweep.
            Conflict: it has already ended otherwise.
        """
        with self._db.write() as session:
            row = session.get(SweepRow, sweep_id, with_for_update=True)
            if row is None:
                raise NotFound(f"there is no sweep '{sweep_id}'")
            if row.state != "cancelled":
                if row.state in ENDED:
                    raise Conflict(f"sweep '{sweep_id}' has already ended ({row.state})")
                end(row, "cancelled")
                session.flush()
            return record_of(StoredSweep, row)

    def trials(self, sweep_id: str, after: int = -1, limit: int = 500) -> Sequence[StoredTrial]:
        """Recorded trials with a number above `after`, in order.

        Raises:
            NotFound: no such sweep.
        """
        self.get(sweep_id)
        query = select(TrialRow).where(TrialRow.sweep_id == sweep_id, TrialRow.number > after)
        with self._db.read() as session:
            rows = session.scalars(query.order_by(TrialRow.number).limit(limit))
            return [record_of(StoredTrial, row) for row in rows]

    def counts(self) -> dict[str, int]:
        """Sweeps by state, for metrics."""
        with self._db.read() as session:
            rows = session.execute(select(SweepRow.state, func.count()).group_by(SweepRow.state)).all()
            return {state: int(count) for state, count in rows}


def end(row: SweepRow, state: SweepState) -> None:
    """Put a sweep into a final state: the lease is gone, and with it the right to write."""
    row.state = state
    row.finished_at = now()
    row.lease_owner = row.lease_until = row.not_before = None
