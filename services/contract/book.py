"""BookModel: the audit table, who asked for which change and what became of it."""

from __future__ import annotations

from datetime import datetime

from services.contract.plain import Answer


class BookLine(Answer):
    """One request for a change."""

    id: str
    created_at: datetime
    actor: str
    action: str
    target: str
    status: int


class BookModel(Answer):
    """One page of lines, newest first."""

    items: tuple[BookLine, ...]
    next_after: str | None = None
