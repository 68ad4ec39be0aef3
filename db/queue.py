"""The queue of sweeps that several runners share: leases with a fencing token.

A runner claims the most urgent job (by priority, then age) that is queued, or whose lease ran out because its runner
died. Every claim raises the
sweep's fence; every later write names the fence it was given and is refused once somebody else has claimed the sweep,
or its owner cancelled it. PostgreSQL hands different jobs to runners that ask at the same time (SKIP LOCKED); SQLite
takes its one write lock before it looks (BEGIN IMMEDIATE).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import and_, func, or_, select, text
from sqlalchemy.orm import Session

from db.base import now
from db.models import SweepRow, TrialRow
from db.recommendations import insert_recommendation
from db.records import Claim, StoredRecommendation
from db.session import Transactions
from db.sweeps import end
from workloads.errors import CaptuneError, Conflict

MAX_ATTEMPTS = 5
"""Claims without one new trial after which a job is given up: it kills whoever runs it."""

BACKOFF_S = 1.0
MAX_BACKOFF_S = 120.0
_CLAIM_LOCK = 0x6361_7075


class LeaseLost(Conflict):
    """Somebody else has the sweep now, or it was cancelled; the caller must stop and write nothing."""

    code = "lease_lost"


class SweepQueue:
    """What a runner does with sweeps; safe to share between threads and processes."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def claim(self, owner: str, lease_s: float, per_user: int | None = None) -> Claim | None:
        """The next job for `owner`, or None. A job that has used up its attempts is failed on the way.

        Args:
            per_user: jobs of one user that may run at the same time, over all runners; None is no limit.
        """
        with self._db.write() as session:
            if per_user is not None and session.get_bind().dialect.name == "postgresql":
                # Counting and claiming must be one step, or two runners would each see room for one more.
                session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CLAIM_LOCK})
            while (row := session.scalars(_claimable(per_user)).first()) is not None:
                if row.attempts < MAX_ATTEMPTS:
                    _take(row, owner, lease_s)
                    return Claim(row.id, row.fence)
                last = "" if row.progress_phase is None else f"; the last one ended at: {row.progress_phase}"
                reason = f"given up after {row.attempts} attempts in a row that brought no new trial{last}"
                _fail(row, CaptuneError(reason))
                session.flush()
            return None

    def renew(self, claim: Claim, lease_s: float) -> None:
        """Say that the runner is alive.

        Raises:
            LeaseLost: the claim is no longer valid.
        """
        with self._db.write() as session:
            _held(session, claim).lease_until = now() + timedelta(seconds=lease_s)

    def holds(self, claim: Claim) -> bool:
        """Whether the claim is still valid; cheap enough to ask every second."""
        query = select(SweepRow.fence).where(SweepRow.id == claim.sweep_id, SweepRow.state == "running")
        with self._db.read() as session:
            return session.scalar(query) == claim.fence

    def progress(self, claim: Claim, phase: str) -> None:
        """Say what the runner is doing now.

        Raises:
            LeaseLost: the claim is no longer valid.
        """
        with self._db.write() as session:
            _held(session, claim).progress_phase = phase[:200]

    def record_trial(self, claim: Claim, number: int, state: str, document: Mapping[str, Any]) -> bool:
        """Record a trial once; False when that number is there already (a resumed job meets its own trials again).

        Raises:
            LeaseLost: the claim is no longer valid; nothing is written.
        """
        with self._db.write() as session:
            row = _held(session, claim)
            if session.get(TrialRow, (claim.sweep_id, number)) is not None:
                return False
            session.add(
                TrialRow(
                    sweep_id=claim.sweep_id, number=number, state=state, document=dict(document), recorded_at=now()
                )
            )
            row.progress_done += 1
            row.attempts = 0
            return True

    def complete(self, claim: Claim, document: Mapping[str, Any], verdict: str) -> StoredRecommendation:
        """Store the recommendation and end the job, in one transaction.

        Raises:
            LeaseLost: the claim is no longer valid; nothing is written.
        """
        with self._db.write() as session:
            row = _held(session, claim)
            stored = insert_recommendation(session, document, row.engine, row.options, verdict, row.id)
            end(row, "complete")
            return stored

    def finish(self, claim: Claim) -> None:
        """End a job that has no recommendation to give: a measurement.

        Raises:
            LeaseLost: the claim is no longer valid; nothing is written.
        """
        with self._db.write() as session:
            end(_held(session, claim), "complete")

    def fail(self, claim: Claim, error: CaptuneError) -> None:
        """End the job with a typed error.

        Raises:
            LeaseLost: the claim is no longer valid; nothing is written.
        """
        with self._db.write() as session:
            _fail(_held(session, claim), error)

    def oldest_waiting_s(self) -> float:
        """How long the job that waits longest has been waiting, of those that are due; 0 when none is."""
        moment = now()
        due = or_(SweepRow.not_before.is_(None), SweepRow.not_before <= moment)
        query = select(func.min(SweepRow.created_at)).where(SweepRow.state == "queued", due)
        with self._db.read() as session:
            oldest = session.scalar(query)
            return 0.0 if oldest is None else max(0.0, (moment - oldest).total_seconds())

    def release(
        self, claim: Claim, *, failed: bool = False, retry_after_s: float = 0.0, reason: str | None = None
    ) -> None:
        """Give the job back to the queue; without effect when the claim is no longer valid.

        Args:
            reason: why it could not go on, shown while it waits.
            failed: this attempt counts against the job; giving back in good order does not.
            retry_after_s: nobody claims it sooner. An attempt that counts doubles it with every one before it since
                the last recorded trial, and waits at least `BACKOFF_S` from the second on.
        """
        with self._db.write() as session:
            row = session.get(SweepRow, claim.sweep_id, with_for_update=True)
            if row is not None and row.state == "running" and row.fence == claim.fence:
                row.state = "queued"
                row.attempts -= 0 if failed or row.attempts == 0 else 1
                row.lease_owner = row.lease_until = None
                row.progress_phase = None if reason is None else f"waiting to try again: {reason}"[:200]
                wait_s = backoff_s(row.attempts, retry_after_s) if failed else retry_after_s
                row.not_before = now() + timedelta(seconds=wait_s) if wait_s > 0 else None


def backoff_s(attempts: int, base_s: float = 0.0) -> float:
    """How long a job waits after `attempts` failed claims in a row without a new trial; the first costs nothing."""
    if attempts <= 1:
        return base_s
    return float(min(MAX_BACKOFF_S, max(base_s, BACKOFF_S) * 2 ** (attempts - 1)))


def _claimable(per_user: int | None) -> Any:
    moment = now()
    waiting = and_(SweepRow.state == "queued", or_(SweepRow.not_before.is_(None), SweepRow.not_before <= moment))
    orphaned = and_(SweepRow.state == "running", SweepRow.lease_until < moment)
    query = select(SweepRow).where(or_(waiting, orphaned))
    if per_user is not None:
        running = select(SweepRow.owner).where(
            SweepRow.state == "running", SweepRow.lease_until >= moment, SweepRow.owner.is_not(None)
        )
        busy = running.group_by(SweepRow.owner).having(func.count() >= per_user)
        query = query.where(or_(SweepRow.owner.is_(None), SweepRow.owner.not_in(busy)))
    order = (SweepRow.priority.desc(), SweepRow.created_at, SweepRow.id)
    return query.order_by(*order).limit(1).with_for_update(skip_locked=True)


def _take(row: SweepRow, owner: str, lease_s: float) -> None:
    row.state = "running"
    row.lease_owner = owner[:100]
    row.lease_until = now() + timedelta(seconds=lease_s)
    row.not_before = None
    row.fence += 1
    row.attempts += 1
    row.started_at = row.started_at or now()
    row.progress_phase = "starting"


def _held(session: Session, claim: Claim) -> SweepRow:
    row = session.get(SweepRow, claim.sweep_id, with_for_update=True)
    if row is None or row.state != "running" or row.fence != claim.fence:
        raise LeaseLost(f"sweep '{claim.sweep_id}' is no longer ours")
    return row


def _fail(row: SweepRow, error: CaptuneError) -> None:
    row.error_code = error.code
    row.error_message = error.message
    row.error_file, row.error_line, row.error_field = error.file, error.line, error.field
    end(row, "failed")
