"""The first schema: traces, profiles, sweeps with their trials, recommendations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "captune_profiles",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=True),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("recorded_at", sa.String(length=60), nullable=True),
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captune_profiles")),
        sa.UniqueConstraint("name", name=op.f("uq_captune_profiles_name")),
    )
    op.create_index(op.f("ix_captune_profiles_created_at"), "captune_profiles", ["created_at"], unique=False)
    op.create_table(
        "captune_traces",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=300), nullable=False),
        sa.Column("format", sa.String(length=60), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("rows", sa.JSON(), nullable=False),
        sa.Column("span_s", sa.Double(), nullable=True),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.Column("observation", sa.JSON(), nullable=True),
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind IN ('requests', 'steps', 'histogram')", name=op.f("ck_captune_traces_kind")),
        sa.CheckConstraint("length(digest) = 64", name=op.f("ck_captune_traces_digest")),
        sa.CheckConstraint("span_s IS NULL OR span_s >= 0", name=op.f("ck_captune_traces_span_s")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captune_traces")),
        sa.UniqueConstraint("digest", name=op.f("uq_captune_traces_digest")),
    )
    op.create_index(op.f("ix_captune_traces_created_at"), "captune_traces", ["created_at"], unique=False)
    op.create_table(
        "captune_sweeps",
        sa.Column("trace_id", sa.String(length=16), nullable=True),
        sa.Column("trace_name", sa.String(length=300), nullable=False),
        sa.Column("engine", sa.String(length=60), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("serving", sa.JSON(), nullable=False),
        sa.Column("budget", sa.JSON(), nullable=False),
        sa.Column("objective", sa.String(length=10), nullable=False),
        sa.Column("profile", sa.String(length=300), nullable=False),
        sa.Column("model", sa.String(length=300), nullable=True),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("holdout_share", sa.Double(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("error_code", sa.String(length=40), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("error_file", sa.Text(), nullable=True),
        sa.Column("error_line", sa.Integer(), nullable=True),
        sa.Column("error_field", sa.Text(), nullable=True),
        sa.Column("lease_owner", sa.String(length=100), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("progress_phase", sa.String(length=200), nullable=True),
        sa.Column("progress_done", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("(state = 'failed') = (error_code IS NOT NULL)", name=op.f("ck_captune_sweeps_error")),
        sa.CheckConstraint(
            "(state = 'running') = (lease_owner IS NOT NULL AND lease_until IS NOT NULL)",
            name=op.f("ck_captune_sweeps_lease"),
        ),
        sa.CheckConstraint(
            "(state IN ('complete', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
            name=op.f("ck_captune_sweeps_finished"),
        ),
        sa.CheckConstraint("objective IN ('step', 'token')", name=op.f("ck_captune_sweeps_objective")),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'complete', 'failed', 'cancelled')", name=op.f("ck_captune_sweeps_state")
        ),
        sa.CheckConstraint("holdout_share >= 0 AND holdout_share < 1", name=op.f("ck_captune_sweeps_holdout_share")),
        sa.CheckConstraint("trials >= 1", name=op.f("ck_captune_sweeps_trials")),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["captune_traces.id"], name=op.f("fk_captune_sweeps_trace_id"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captune_sweeps")),
    )
    op.create_index(op.f("ix_captune_sweeps_created_at"), "captune_sweeps", ["created_at"], unique=False)
    op.create_index("ix_captune_sweeps_queue", "captune_sweeps", ["state", "created_at"], unique=False)
    op.create_index(op.f("ix_captune_sweeps_trace_id"), "captune_sweeps", ["trace_id"], unique=False)
    op.create_table(
        "captune_recommendations",
        sa.Column("sweep_id", sa.String(length=16), nullable=True),
        sa.Column("engine", sa.String(length=60), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("verdict", sa.String(length=20), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "verdict IN ('adopt', 'try', 'keep_default', 'inconclusive')",
            name=op.f("ck_captune_recommendations_verdict"),
        ),
        sa.CheckConstraint("length(digest) = 64", name=op.f("ck_captune_recommendations_digest")),
        sa.ForeignKeyConstraint(
            ["sweep_id"], ["captune_sweeps.id"], name=op.f("fk_captune_recommendations_sweep_id"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captune_recommendations")),
        sa.UniqueConstraint("sweep_id", name=op.f("uq_captune_recommendations_sweep_id")),
    )
    op.create_index(
        op.f("ix_captune_recommendations_created_at"), "captune_recommendations", ["created_at"], unique=False
    )
    op.create_table(
        "captune_trials",
        sa.Column("sweep_id", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("state IN ('complete', 'infeasible', 'failed')", name=op.f("ck_captune_trials_state")),
        sa.CheckConstraint("number >= 0", name=op.f("ck_captune_trials_number")),
        sa.ForeignKeyConstraint(
            ["sweep_id"], ["captune_sweeps.id"], name=op.f("fk_captune_trials_sweep_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sweep_id", "number", name=op.f("pk_captune_trials")),
    )


def downgrade() -> None:
    op.drop_table("captune_trials")
    op.drop_index(op.f("ix_captune_recommendations_created_at"), table_name="captune_recommendations")
    op.drop_table("captune_recommendations")
    op.drop_index(op.f("ix_captune_sweeps_trace_id"), table_name="captune_sweeps")
    op.drop_index("ix_captune_sweeps_queue", table_name="captune_sweeps")
    op.drop_index(op.f("ix_captune_sweeps_created_at"), table_name="captune_sweeps")
    op.drop_table("captune_sweeps")
    op.drop_index(op.f("ix_captune_traces_created_at"), table_name="captune_traces")
    op.drop_table("captune_traces")
    op.drop_index(op.f("ix_captune_profiles_created_at"), table_name="captune_profiles")
    op.drop_table("captune_profiles")
