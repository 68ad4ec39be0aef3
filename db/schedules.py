"""Schedules: tuning jobs at the times of a cron line, or for every new upload of a named trace.

The runners fire them. A schedule is locked while it fires and its jobs are queued in the same transaction, so several
runners queue a job once, and a runner that is killed in between queues it later.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db.base import now
from db.idempotency import bind, made_before
from db.models import ScheduleRow, SweepRow, TraceRow
from db.paging import Page, page_of
from db.records import Key, NewSweep, StoredSchedule, record_of
from db.session import Transactions
from db.sweeps import row_of
from workloads.errors import CaptuneError, NotFound

NextTime = Callable[[str, datetime], datetime]
NewJob = Callable[[StoredSchedule, str], NewSweep]

_OVERLAP = timedelta(hours=1)
"""Uploads are looked for so far back again: one that began before the last look may have been stored after it."""


class ScheduleStore:
    """Schedules as their owners see them, and their firing."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def create_once(
        self,
        key: Key | None,
        *,
        name: str,
        job: Mapping[str, Any],
        cron: str | None,
        trace_name: str | None,
        next_at: datetime | None,
        owner: str | None,
    ) -> tuple[StoredSchedule, bool]:
        """Keep a schedule unless `key` has made one before; the flag says so.

        Raises:
            KeyReused: the key stands for another request.
        """
        values: dict[str, Any] = {"name": name, "job": dict(job), "cron": cron, "trace_name": trace_name}
        values |= {"next_at": next_at, "owner": owner}
        try:
            with self._db.write() as session:
                return _create(session, key, values)
        except IntegrityError:  # the same key at the same moment
            with self._db.write() as session:
                return _create(session, key, values)

    def get(self, schedule_id: str) -> StoredSchedule:
        """Raises:
        NotFound: no such schedule.
        """
        with self._db.read() as session:
            row = session.get(ScheduleRow, schedule_id)
            if row is None:
                raise NotFound(f"there is no schedule '{schedule_id}'")
            return record_of(StoredSchedule, row)

    def page(self, limit: int = 50, after: str | None = None) -> Page[StoredSchedule]:
        """Newest first; `after` is the cursor of the page before."""
        with self._db.read() as session:
            return page_of(session, ScheduleRow, StoredSchedule, limit, after)

    def delete(self, schedule_id: str) -> None:
        """Queue no more; jobs that it queued stay.

        Raises:
            NotFound: no such schedule.
        """
        with self._db.write() as session:
            row = session.get(ScheduleRow, schedule_id)
            if row is None:
                raise NotFound(f"there is no schedule '{schedule_id}'")
            session.delete(row)

    def fire(self, next_time: NextTime, new_job: NewJob) -> int:
        """Queue whatever is due, and say how many jobs that were.

        Args:
            next_time: when a cron line is due after a moment.
            new_job: the job of a schedule for a trace. A `CaptuneError` of it is kept as the schedule's last error.
        """
        due = or_(ScheduleRow.next_at <= now(), ScheduleRow.cron.is_(None))
        with self._db.read() as session:
            ids = session.scalars(select(ScheduleRow.id).where(due)).all()
            ids = [item for item in ids if _something_to_do(session, item)]
        return sum(self._fire_one(schedule_id, next_time, new_job) for schedule_id in ids)

    def _fire_one(self, schedule_id: str, next_time: NextTime, new_job: NewJob) -> int:
        locked = select(ScheduleRow).where(ScheduleRow.id == schedule_id).with_for_update(skip_locked=True)
        with self._db.write() as session:
            row = session.scalars(locked).first()
            if row is None:
                return 0
            traces = _due_traces(session, row)
            queued = 0
            for trace_id in traces:
                try:
                    session.add(row_of(session, new_job(record_of(StoredSchedule, row), trace_id)))
                    session.flush()
                    row.last_error = None
                    queued += 1
                except CaptuneError as error:
                    row.last_error = str(error)
            if row.cron is not None and row.next_at is not None and row.next_at <= now():
                row.next_at = next_time(row.cron, now())
                if not traces:
                    row.last_error = f"there is no trace named '{row.trace_name}'"
            row.fired_at = now()
            return queued


def _create(session: Session, key: Key | None, values: Mapping[str, Any]) -> tuple[StoredSchedule, bool]:
    made = made_before(session, key)
    if made is not None:
        before = session.get(ScheduleRow, made)
        if before is None:
            raise NotFound(f"schedule '{made}', which this key made, was deleted", field="Idempotency-Key")
        return record_of(StoredSchedule, before), True
    row = ScheduleRow(id=secrets.token_hex(6), created_at=now(), **values)
    session.add(row)
    session.flush()
    bind(session, key, row.id)
    return record_of(StoredSchedule, row), False


def _something_to_do(session: Session, schedule_id: str) -> bool:
    """Whether a schedule is worth a lock: a look at an upload schedule finds nothing new nearly every time."""
    row = session.get(ScheduleRow, schedule_id)
    return row is not None and (row.cron is not None or bool(_due_traces(session, row)))


def _due_traces(session: Session, row: ScheduleRow) -> Sequence[str]:
    if row.cron is not None:
        if row.next_at is None or row.next_at > now():
            return []
        if row.trace_name is None:
            return [str(row.job["trace_id"])]
        newest = select(TraceRow.id).where(TraceRow.name == row.trace_name).order_by(TraceRow.created_at.desc())
        return session.scalars(newest.limit(1)).all()
    since = row.created_at if row.fired_at is None else max(row.created_at, row.fired_at - _OVERLAP)
    done = select(SweepRow.trace_id).where(SweepRow.schedule_id == row.id, SweepRow.trace_id.is_not(None))
    fresh = select(TraceRow.id).where(
        TraceRow.name == row.trace_name, TraceRow.created_at >= since, TraceRow.id.not_in(done)
    )
    return session.scalars(fresh.order_by(TraceRow.created_at, TraceRow.id)).all()
