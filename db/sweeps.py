"""Stored sweeps: create, list, cancel, and their trials. The queue that runners share is `db.queue`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db.base import now
from db.idempotency import bind, made_before
from db.models import SweepRow, TraceRow, TrialRow
from db.paging import Page, page_of
from db.records import ENDED, JobKind, Key, NewMeasurement, NewSweep, StoredSweep, StoredTrial, SweepState, record_of
from db.session import Transactions
from workloads.errors import Conflict, NotFound

_CHANGING = (
    SweepRow.state,
    SweepRow.fence,
    SweepRow.attempts,
    SweepRow.progress_done,
    SweepRow.progress_phase,
    SweepRow.not_before,
    SweepRow.started_at,
    SweepRow.finished_at,
    SweepRow.trace_id,
)
"""Every other column that is shown is set at the start, or together with one of these."""


class QueueFull(Conflict):
    """An owner has more jobs waiting than one may have."""

    code = "queue_full"
    http_status = 429


class SweepStore:
    """Tuning jobs as their owners see them."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def create(self, new: NewSweep) -> StoredSweep:
        """Queue a job.

        Raises:
            NotFound: the trace is not stored.
        """
        return self.create_once(new, None)[0]

    def create_once(
        self, new: NewSweep | NewMeasurement, key: Key | None, *, most_queued: int | None = None
    ) -> tuple[StoredSweep, bool]:
        """Queue a job unless `key` has made one before.

        Args:
            most_queued: jobs that one owner may have waiting; None is no limit.

        Returns:
            The job, and whether it was there before.

        Raises:
            NotFound: the trace is not stored.
            KeyReused: the key stands for another request.
            QueueFull: the owner has too many jobs waiting.
        """
        try:
            with self._db.write() as session:
                return _create(session, new, key, most_queued)
        except IntegrityError:
            # The same key at the same moment, or a trace deleted meanwhile: a second look tells which.
            with self._db.write() as session:
                return _create(session, new, key, most_queued)

    def get(self, sweep_id: str, kind: JobKind | None = None) -> StoredSweep:
        """One job; with `kind`, only of that kind.

        Raises:
            NotFound: no such sweep.
        """
        with self._db.read() as session:
            row = session.get(SweepRow, sweep_id)
            if row is None or kind not in (None, row.kind):
                raise _missing(sweep_id, kind)
            return record_of(StoredSweep, row)

    def revision(self, sweep_id: str, kind: JobKind | None = None) -> str:
        """What changes whenever the job does, for the price of a few short columns.

        Raises:
            NotFound: no such sweep.
        """
        query = select(*_CHANGING).where(SweepRow.id == sweep_id)
        if kind is not None:
            query = query.where(SweepRow.kind == kind)
        with self._db.read() as session:
            row = session.execute(query).first()
            if row is None:
                raise _missing(sweep_id, kind)
            return "|".join(map(str, row))

    def page(
        self,
        limit: int = 50,
        after: str | None = None,
        *,
        state: SweepState | None = None,
        trace_id: str | None = None,
        kind: JobKind = "tune",
    ) -> Page[StoredSweep]:
        """Newest first; `after` is the cursor of the page before."""
        where = [SweepRow.kind == kind]
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

    def resume(self, sweep_id: str) -> StoredSweep:
        """Queue a failed or cancelled job again; what it recorded stays, and it goes on from there.

        Raises:
            NotFound: no such sweep.
            Conflict: it is waiting, at work, or complete.
        """
        with self._db.write() as session:
            row = session.get(SweepRow, sweep_id, with_for_update=True)
            if row is None:
                raise NotFound(f"there is no sweep '{sweep_id}'")
            if row.state not in ("failed", "cancelled"):
                raise Conflict(f"sweep '{sweep_id}' is {row.state}; only a failed or cancelled one can be resumed")
            row.state, row.attempts, row.finished_at = "queued", 0, None
            row.error_code = row.error_message = row.error_file = row.error_field = row.error_line = None
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

    def recorded(self, sweep_id: str) -> int:
        """How many trials are recorded; they are never changed, so this is their revision.

        Raises:
            NotFound: no such sweep.
        """
        with self._db.read() as session:
            done = session.scalar(select(SweepRow.progress_done).where(SweepRow.id == sweep_id))
            if done is None:
                raise _missing(sweep_id, None)
            return done

    def counts(self) -> dict[str, int]:
        """Sweeps by state, for metrics."""
        with self._db.read() as session:
            rows = session.execute(select(SweepRow.state, func.count()).group_by(SweepRow.state)).all()
            return {state: int(count) for state, count in rows}


def _missing(sweep_id: str, kind: JobKind | None) -> NotFound:
    return NotFound(f"there is no {'measurement' if kind == 'measure' else 'sweep'} '{sweep_id}'")


def end(row: SweepRow, state: SweepState) -> None:
    """Put a sweep into a final state: the lease is gone, and with it the right to write."""
    row.state = state
    row.finished_at = now()
    row.lease_owner = row.lease_until = row.not_before = None


def _create(
    session: Session, new: NewSweep | NewMeasurement, key: Key | None, most_queued: int | None
) -> tuple[StoredSweep, bool]:
    made = made_before(session, key)
    before = None if made is None else session.get(SweepRow, made)
    if before is not None:
        return record_of(StoredSweep, before), True
    if made is not None:
        raise NotFound(f"sweep '{made}', which this key made, was deleted", field="Idempotency-Key")
    if most_queued is not None and new.owner is not None:
        waiting = select(func.count()).where(SweepRow.owner == new.owner, SweepRow.state == "queued")
        if (session.scalar(waiting) or 0) >= most_queued:
            raise QueueFull(f"'{new.owner}' has {most_queued} jobs waiting already; wait until some have ended")
    row = row_of(session, new)
    session.add(row)
    session.flush()
    bind(session, key, row.id)
    return record_of(StoredSweep, row), False


def row_of(session: Session, new: NewSweep | NewMeasurement) -> SweepRow:
    """A new queued job, not yet added.

    Raises:
        NotFound: the trace is not stored.
    """
    common = {"id": secrets.token_hex(6), "state": "queued", "created_at": now()}
    if isinstance(new, NewMeasurement):
        nothing = {"trace_name": "", "engine": "", "options": {}, "serving": {}, "budget": {}, "objective": "step"}
        return SweepRow(**common, **nothing, **asdict(new), kind="measure", trials=1, seed=0, holdout_share=0.0)
    trace = session.get(TraceRow, new.trace_id)
    if trace is None:
        raise NotFound(f"there is no trace '{new.trace_id}'", field="trace_id")
    return SweepRow(**common, **{**asdict(new), "options": dict(new.options)}, trace_name=trace.name)
