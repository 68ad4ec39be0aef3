"""Declarative base, column types and naming rules shared by all tables."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import JSON, DateTime, Dialect, MetaData
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeDecorator

PREFIX = "captune_"
"""Optuna's tables live in the same database; the prefix keeps ours apart from them."""


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC times on every database; SQLite itself forgets the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


JsonColumn = JSON(none_as_null=True)
"""Plain JSON on both databases: documents are read whole, and JSONB would reorder their keys."""


class Base(DeclarativeBase):
    """Root of all tables; constraints get stable names so that migrations can address them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def now() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)
