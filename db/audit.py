"""The audit table: every request for a change, who asked, and what became of it."""

from __future__ import annotations

import secrets

from db.base import now
from db.models import AuditRow
from db.paging import Page, page_of
from db.records import StoredAudit
from db.session import Transactions


class AuditStore:
    """Written by the API after each changing request; never holds bodies or tokens."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def add(self, actor: str, action: str, target: str, status: int) -> None:
        """One line of the book."""
        printable = "".join(mark if mark.isprintable() else "?" for mark in target)
        with self._db.write() as session:
            session.add(
                AuditRow(
                    id=secrets.token_hex(8),
                    created_at=now(),
                    actor=actor[:100],
                    action=action[:10],
                    target=printable[:300],
                    status=status,
                )
            )

    def page(self, limit: int = 50, after: str | None = None) -> Page[StoredAudit]:
        """Newest first; `after` is the cursor of the page before."""
        with self._db.read() as session:
            return page_of(session, AuditRow, StoredAudit, limit, after)
