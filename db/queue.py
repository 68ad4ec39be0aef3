"""The queue of sweeps that several runners share: leases with a fencing token.

A runner claims the oldest job that is queued, or whose lease ran out because its runner died. Every claim raises the
sweep's fence; every later write names the fence it was given and is refused once somebody else has claimed the sweep,
or its owner cancelled it. PostgreSQL hands different jobs to runners that ask at the same time (SKIP LOCKED); SQLite
takes its one write lock before it looks (BEGIN IMMEDIATE).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import and_, or_, select
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


class LeaseLost(Conflict):
    """Somebody else has the sweep now, or it was cancelled; the caller must stop and write nothing."""

    code = "lease_lost"


class SweepQueue:
    """What a runner does with sweeps; safe to share between threads and processes."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def claim(self, owner: str, lease_s: float) -> Claim | None:
        """The next job for `owner`, or None. A job that has used up its attempts is failed on the way."""
        with self._db.write() as session:
            while (row := session.scalars(_claimable()).first()) is not None:
                if row.attempts < MAX_ATTEMPTS:
                    _take(row, owner, lease_s)
                    return Claim(row.id, row.fence)
                _fail(row, CaptuneError(f"given up after {row.attempts} attempts in a row that brought no new trial"))
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

    def fail(self, claim: Claim, error: CaptuneError) -> None:
        """End the job with a typed error.

        Raises:
            LeaseLost: the claim is no longer valid; nothing is written.
        """
        with self._db.write() as session:
            _fail(_held(session, claim), error)

    def release(self, claim: Claim, *, failed: bool = False, retry_after_s: float = 0.0) -> None:
        """Give the job back to the queue; without effect when the claim is no longer valid.

        Args:
            failed: this attempt counts against the job; giving back in good order does not.
            retry_after_s: nobody claims it sooner.
        """
        with self._db.write() as session:
            row = session.get(SweepRow, claim.sweep_id, with_for_update=True)
            if row is not None and row.state == "running" and row.fence == claim.fence:
                row.state = "queued"
                row.attempts -= 0 if failed or row.attempts == 0 else 1
                row.lease_owner = row.lease_until = None
                row.not_before = now() + timedelta(seconds=retry_after_s) if retry_after_s > 0 else None


def _claimable() -> Any:
    moment = now()
    waiting = and_(SweepRow.state == "queued", or_(SweepRow.not_before.is_(None), SweepRow.not_before <= moment))
    orphaned = and_(SweepRow.state == "running", SweepRow.lease_until < moment)
    query = select(SweepRow).where(or_(waiting, orphaned)).order_by(SweepRow.created_at, SweepRow.id).limit(1)
    return query.with_for_update(skip_locked=True)


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
