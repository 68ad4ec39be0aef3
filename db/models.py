"""The tables. Constraints say here, in the database, what the code believes.

One more stands in migration 0003, as the two databases need it in different words: the lists of trials and
recommendations are positive and increasing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, column_property, mapped_column

from db.base import PREFIX, Base, JsonColumn, UtcDateTime


def _one_of(column: str, *values: str) -> CheckConstraint:
    quoted = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({quoted})", name=column)


class ListedRow(Base):
    """What is listed newest first."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class TraceRow(ListedRow):
    """Recorded traffic; its columns are a Parquet file named by the digest."""

    __tablename__ = PREFIX + "traces"
    __table_args__ = (
        _one_of("kind", "requests", "steps", "histogram"),
        CheckConstraint("length(digest) = 64", name="digest"),
        CheckConstraint("span_s IS NULL OR span_s >= 0", name="span_s"),
    )

    digest: Mapped[str] = mapped_column(String(64), unique=True)
    name: Mapped[str] = mapped_column(String(300))
    format: Mapped[str] = mapped_column(String(60))
    kind: Mapped[str] = mapped_column(String(10))
    rows: Mapped[dict[str, Any]] = mapped_column(JsonColumn)
    span_s: Mapped[float | None]
    notes: Mapped[list[str]] = mapped_column(JsonColumn)
    observation: Mapped[dict[str, Any] | None] = mapped_column(JsonColumn)
    tags: Mapped[list[str]] = mapped_column(JsonColumn, default=list, server_default=text("'[]'"))
    origin: Mapped[str | None] = mapped_column(String(20))


class ProfileRow(ListedRow):
    """A cost profile as its JSON file."""

    __tablename__ = PREFIX + "profiles"

    name: Mapped[str] = mapped_column(String(200), unique=True)
    document: Mapped[str] = mapped_column(Text)
    device: Mapped[str | None] = mapped_column(String(200))
    model: Mapped[str | None] = mapped_column(String(200))
    recorded_at: Mapped[str | None] = mapped_column(String(60))


class SweepRow(ListedRow):
    """A tuning job (or, by `kind`, the measurement of a profile) and the lease of the runner that works on it.

    `fence` counts claims: whoever writes must show the number of the claim it was given, so a runner that lost its
    lease cannot write any more. `attempts` counts claims since the last recorded trial.
    """

    __tablename__ = PREFIX + "sweeps"
    __table_args__ = (
        _one_of("state", "queued", "running", "complete", "failed", "cancelled"),
        _one_of("objective", "step", "token"),
        _one_of("kind", "tune", "measure"),
        CheckConstraint("priority BETWEEN -10 AND 10", name="priority"),
        CheckConstraint("trials >= 1", name="trials"),
        CheckConstraint("holdout_share >= 0 AND holdout_share < 1", name="holdout_share"),
        CheckConstraint("(state = 'running') = (lease_owner IS NOT NULL AND lease_until IS NOT NULL)", name="lease"),
        CheckConstraint("(state = 'failed') = (error_code IS NOT NULL)", name="error"),
        CheckConstraint(
            "(state IN ('complete', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
            name="finished",
        ),
        Index("ix_captune_sweeps_queue", "state", "created_at"),
    )

    trace_id: Mapped[str | None] = mapped_column(ForeignKey(TraceRow.id, ondelete="SET NULL"), index=True)
    trace_name: Mapped[str] = mapped_column(String(300))
    engine: Mapped[str] = mapped_column(String(60))
    options: Mapped[dict[str, str]] = mapped_column(JsonColumn)
    serving: Mapped[dict[str, Any]] = mapped_column(JsonColumn)
    budget: Mapped[dict[str, Any]] = mapped_column(JsonColumn)
    objective: Mapped[str] = mapped_column(String(10))
    profile: Mapped[str] = mapped_column(String(300))
    model: Mapped[str | None] = mapped_column(String(300))
    trials: Mapped[int]
    seed: Mapped[int]
    holdout_share: Mapped[float]
    state: Mapped[str] = mapped_column(String(10))
    error_code: Mapped[str | None] = mapped_column(String(40))
    error_message: Mapped[str | None] = mapped_column(Text)
    error_file: Mapped[str | None] = mapped_column(Text)
    error_line: Mapped[int | None]
    error_field: Mapped[str | None] = mapped_column(Text)
    lease_owner: Mapped[str | None] = mapped_column(String(100))
    lease_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    fence: Mapped[int] = mapped_column(default=0)
    attempts: Mapped[int] = mapped_column(default=0)
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime)
    progress_phase: Mapped[str | None] = mapped_column(String(200))
    progress_done: Mapped[int] = mapped_column(default=0)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    kind: Mapped[str] = mapped_column(String(10), default="tune", server_default="tune")
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    owner: Mapped[str | None] = mapped_column(String(100))
    schedule_id: Mapped[str | None] = mapped_column(String(16))
    worker: Mapped[dict[str, Any]] = mapped_column(JsonColumn, default=dict, server_default=text("'{}'"))


class TrialRow(Base):
    """One trial of one sweep, recorded once; never changed afterwards."""

    __tablename__ = PREFIX + "trials"
    __table_args__ = (
        _one_of("state", "complete", "infeasible", "failed"),
        CheckConstraint("number >= 0", name="number"),
    )

    sweep_id: Mapped[str] = mapped_column(ForeignKey(SweepRow.id, ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(String(10))
    document: Mapped[dict[str, Any]] = mapped_column(JsonColumn)
    recorded_at: Mapped[datetime] = mapped_column(UtcDateTime)


class RecommendationRow(ListedRow):
    """A recommendation as its JSON document; at most one per sweep."""

    __tablename__ = PREFIX + "recommendations"
    __table_args__ = (
        _one_of("verdict", "adopt", "try", "keep_default", "inconclusive"),
        CheckConstraint("length(digest) = 64", name="digest"),
    )

    sweep_id: Mapped[str | None] = mapped_column(ForeignKey(SweepRow.id, ondelete="SET NULL"), unique=True)
    engine: Mapped[str] = mapped_column(String(60))
    options: Mapped[dict[str, str]] = mapped_column(JsonColumn)
    verdict: Mapped[str] = mapped_column(String(20))
    document: Mapped[dict[str, Any]] = mapped_column(JsonColumn)
    digest: Mapped[str] = mapped_column(String(64))

    # Picked out by the database, for those who need no more of a large document.
    lists: Mapped[dict[str, Any]] = column_property(document["lists"], deferred=True)


class TokenRow(ListedRow):
    """Access to the API; the token itself is not kept, only the SHA-256 of it."""

    __tablename__ = PREFIX + "tokens"
    __table_args__ = (
        _one_of("scope", "read", "write", "admin"),
        CheckConstraint("length(digest) = 64", name="digest"),
    )

    name: Mapped[str] = mapped_column(String(100))
    scope: Mapped[str] = mapped_column(String(10))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class AuditRow(ListedRow):
    """Who asked for a change, and what became of it."""

    __tablename__ = PREFIX + "audit"

    actor: Mapped[str] = mapped_column(String(100))
    action: Mapped[str] = mapped_column(String(10))
    target: Mapped[str] = mapped_column(String(300))
    status: Mapped[int]


class IdempotencyRow(Base):
    """The object that a client's key made; `digest` is of the request."""

    __tablename__ = PREFIX + "idempotency"
    __table_args__ = (CheckConstraint("length(digest) = 64", name="digest"),)

    owner: Mapped[str] = mapped_column(String(100), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    object_id: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ScheduleRow(ListedRow):
    """Tuning jobs to come: at the times of `cron`, or for every new upload named `trace_name`."""

    __tablename__ = PREFIX + "schedules"
    __table_args__ = (
        CheckConstraint("(cron IS NULL) = (next_at IS NULL)", name="cron"),
        CheckConstraint("cron IS NOT NULL OR trace_name IS NOT NULL", name="trigger"),
    )

    name: Mapped[str] = mapped_column(String(200))
    cron: Mapped[str | None] = mapped_column(String(100))
    trace_name: Mapped[str | None] = mapped_column(String(300))
    job: Mapped[dict[str, Any]] = mapped_column(JsonColumn)
    owner: Mapped[str | None] = mapped_column(String(100))
    next_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    fired_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_error: Mapped[str | None] = mapped_column(Text)


class WorkerRow(ListedRow):
    """One device of one node, as the last job or look at the cluster saw it."""

    __tablename__ = PREFIX + "workers"
    __table_args__ = (_one_of("state", "idle", "busy", "lost", "refused"),)

    node: Mapped[str] = mapped_column(String(200))
    device: Mapped[str] = mapped_column(String(200))
    memory_mib: Mapped[float | None]
    driver: Mapped[str | None] = mapped_column(String(60))
    torch: Mapped[str | None] = mapped_column(String(60))
    ray: Mapped[str | None] = mapped_column(String(60))
    python: Mapped[str | None] = mapped_column(String(60))
    state: Mapped[str] = mapped_column(String(10))
    sweep_id: Mapped[str | None] = mapped_column(String(16))
    current_size: Mapped[int | None]
    last_error: Mapped[str | None] = mapped_column(Text)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
