"""Tags of traces, and what kind of evidence their steps are, so that a list of traces can say it."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE captune_traces ADD COLUMN tags JSON DEFAULT '[]' NOT NULL")
    op.execute("ALTER TABLE captune_traces ADD COLUMN origin VARCHAR(20)")


def downgrade() -> None:
    op.execute("ALTER TABLE captune_traces DROP COLUMN origin")
    op.execute("ALTER TABLE captune_traces DROP COLUMN tags")
