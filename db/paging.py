"""Keyset pagination, newest first: pages stay right while rows are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Generic, TypeVar

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from db.models import ListedRow
from db.records import T, record_of
from workloads.errors import BadUsage

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page; `next_after` is the cursor of the next one, None at the end."""

    items: Sequence[Item]
    next_after: str | None


def page_of(
    session: Session,
    table: type[ListedRow],
    kind: type[T],
    limit: int,
    after: str | None,
    where: Sequence[ColumnElement[bool]] = (),
) -> Page[T]:
    """Rows of `table` as `kind`, newest first. Only the columns that `kind` has are read: a list without its documents
    costs nothing of them.

    Raises:
        BadUsage: a limit outside 1..500, or a cursor that we did not make.
    """
    if not 1 <= limit <= 500:
        raise BadUsage("must be from 1 to 500", field="limit")
    columns = [getattr(table, item.name) for item in fields(kind)]
    query = select(*columns).order_by(table.created_at.desc(), table.id.desc()).limit(limit + 1).where(*where)
    if after is not None:
        created_at, row_id = _cursor(after)
        earlier = and_(table.created_at == created_at, table.id < row_id)
        query = query.where(or_(table.created_at < created_at, earlier))
    rows = session.execute(query).all()
    more = rows[limit - 1] if len(rows) > limit else None
    cursor = None if more is None else f"{more.created_at.isoformat()}_{more.id}"
    return Page([record_of(kind, row) for row in rows[:limit]], cursor)


def _cursor(text: str) -> tuple[datetime, str]:
    created_at, _, row_id = text.partition("_")
    try:
        parsed = datetime.fromisoformat(created_at)
    except ValueError:
        raise BadUsage("is not a cursor of this list", field="after") from None
    if parsed.tzinfo is None:
        raise BadUsage("is not a cursor of this list", field="after")
    return parsed, row_id
