"""Alembic's entry: runs migrations on the connection that `db.migrations.upgrade` hands in."""

from __future__ import annotations

from alembic import context

from db.base import Base
from db.migrations.upgrade import VERSION_TABLE, is_ours

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    include_name=is_ours,
    compare_type=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
