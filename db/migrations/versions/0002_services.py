"""What services need to be shared: tokens, audit, idempotency keys, schedules, workers, priorities and owners."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Written out, because SQLite cannot add a constraint to a table that exists, and rebuilding the table would delete
# its trials by cascade. Both databases understand a column that brings its own constraint.
_SWEEP_COLUMNS = (
    "kind VARCHAR(10) DEFAULT 'tune' NOT NULL CONSTRAINT ck_captune_sweeps_kind CHECK (kind IN ('tune', 'measure'))",
    "priority INTEGER DEFAULT 0 NOT NULL CONSTRAINT ck_captune_sweeps_priority CHECK (priority BETWEEN -10 AND 10)",
    "owner VARCHAR(100)",
    "schedule_id VARCHAR(16)",
)


def upgrade() -> None:
    for column in _SWEEP_COLUMNS:
        op.execute(f"ALTER TABLE captune_sweeps ADD COLUMN {column}")
    _tokens()
    _audit()
    _idempotency()
    _schedules()
    _workers()


def _tokens() -> None:
    op.create_table(
        "captune_tokens",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("scope", sa.String(length=10), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("scope IN ('read', 'write', 'admin')", name=op.f("ck_captune_tokens_scope")),
        sa.CheckConstraint("length(digest) = 64", name=op.f("ck_captune_tokens_digest")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captune_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_captune_tokens_digest")),
    )
    op.create_index(op.f("ix_captune_tokens_created_at"), "captune_tokens", ["created_at"], unique=False)


def _audit() -> None:
    op.create_table(
        "captune_audit",
        sa.Column("actor", sa.String(length=100), nullable=False),
        sa.Column("action", sa.String(length=10), nullable=False),
        sa.Column("target", sa.String(length=300), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captune_audit")),
    )
    op.create_index(op.f("ix_captune_audit_created_at"), "captune_audit", ["created_at"], unique=False)


def _idempotency() -> None:
    op.create_table(
        "captune_idempotency",
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("object_id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("length(digest) = 64", name=op.f("ck_captune_idempotency_digest")),
        sa.PrimaryKeyConstraint("owner", "key", name=op.f("pk_captune_idempotency")),
    )


def _schedules() -> None:
    op.create_table(
        "captune_schedules",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("cron", sa.String(length=100), nullable=True),
        sa.Column("trace_name", sa.String(length=300), nullable=True),
        sa.Column("job", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=True),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("(cron IS NULL) = (next_at IS NULL)", name=op.f("ck_captune_schedules_cron")),
        sa.CheckConstraint("cron IS NOT NULL OR trace_name IS NOT NULL", name=op.f("ck_captune_schedules_trigger")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captune_schedules")),
    )
    op.create_index(op.f("ix_captune_schedules_created_at"), "captune_schedules", ["created_at"], unique=False)


def _workers() -> None:
    op.create_table(
        "captune_workers",
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=False),
        sa.Column("memory_mib", sa.Double(), nullable=True),
        sa.Column("driver", sa.String(length=60), nullable=True),
        sa.Column("torch", sa.String(length=60), nullable=True),
        sa.Column("ray", sa.String(length=60), nullable=True),
        sa.Column("python", sa.String(length=60), nullable=True),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("sweep_id", sa.String(length=16), nullable=True),
        sa.Column("current_size", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("state IN ('idle', 'busy', 'lost', 'refused')", name=op.f("ck_captune_workers_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captune_workers")),
    )
    op.create_index(op.f("ix_captune_workers_created_at"), "captune_workers", ["created_at"], unique=False)


def downgrade() -> None:
    for name in ("workers", "schedules", "audit", "tokens"):
        op.drop_index(op.f(f"ix_captune_{name}_created_at"), table_name=f"captune_{name}")
        op.drop_table(f"captune_{name}")
    op.drop_table("captune_idempotency")
    op.execute("DELETE FROM captune_sweeps WHERE kind <> 'tune'")  # the older schema knows tuning jobs only
    for column in ("schedule_id", "owner", "priority", "kind"):
        op.execute(f"ALTER TABLE captune_sweeps DROP COLUMN {column}")
