"""Retention: what is older than its owner wants to keep goes; what something still needs stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from sqlalchemy import CursorResult, delete, or_

from db.base import now
from db.models import AuditRow, IdempotencyRow, SweepRow, TokenRow, WorkerRow
from db.records import ENDED
from db.session import Transactions

KEYS_FOR = timedelta(days=2)
"""A client does not retry a request for longer."""


@dataclass(frozen=True, slots=True)
class Removed:
    """How many rows of each kind went."""

    sweeps: int
    audit: int
    keys: int
    tokens: int
    workers: int


class RetentionStore:
    """Deletes by age. Recommendations are never deleted here: they are what the work was for."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def prune(self, keep: timedelta) -> Removed:
        """Remove sweeps (with their trials) that ended, audit lines, dead tokens and workers older than `keep`."""
        before = now() - keep
        with self._db.write() as session:
            ended = SweepRow.state.in_(ENDED) & (SweepRow.finished_at < before)
            dead = or_(TokenRow.revoked_at < before, TokenRow.expires_at < before)
            statements = {
                "sweeps": delete(SweepRow).where(ended),
                "audit": delete(AuditRow).where(AuditRow.created_at < before),
                "keys": delete(IdempotencyRow).where(IdempotencyRow.created_at < now() - KEYS_FOR),
                "tokens": delete(TokenRow).where(dead),
                "workers": delete(WorkerRow).where(WorkerRow.seen_at < before),
            }
            counted = {kind: cast(CursorResult[Any], session.execute(each)) for kind, each in statements.items()}
            return Removed(**{kind: result.rowcount for kind, result in counted.items()})
