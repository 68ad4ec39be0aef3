"""What the store hands out: plain frozen values, never rows that hang on a session."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from workloads.traces.records import Kind

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SweepState = Literal["queued", "running", "complete", "failed", "cancelled"]
JobKind = Literal["tune", "measure"]
Scope = Literal["read", "write", "admin"]
WorkerState = Literal["idle", "busy", "lost", "refused"]
ENDED: tuple[SweepState, ...] = ("complete", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A stored trace without its columns.

    Attributes:
        rows: `read`, `kept`, `dropped`, `first_line`.
        tags: lower-case words of people's own, sorted.
        origin: what kind of evidence its steps are; None for requests, and for steps stored before this was noted.
    """

    id: str
    digest: str
    name: str
    format: str
    kind: Kind
    rows: Mapping[str, Any]
    span_s: float | None
    notes: Sequence[str]
    observation: Mapping[str, Any] | None
    tags: Sequence[str]
    origin: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A stored profile; `document` is the text of its file."""

    id: str
    name: str
    document: str
    device: str | None
    model: str | None
    recorded_at: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewSweep:
    """A tuning job as it is asked for. `serving`, `budget` and `worker` are documents of the caller's making."""

    trace_id: str
    engine: str
    profile: str
    options: Mapping[str, str] = field(default_factory=dict)
    serving: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    objective: str = "step"
    model: str | None = None
    trials: int = 24
    seed: int = 0
    holdout_share: float = 0.3
    priority: int = 0
    owner: str | None = None
    not_before: datetime | None = None
    schedule_id: str | None = None
    worker: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewMeasurement:
    """A cost profile to be measured and kept under the name `profile`."""

    model: str
    profile: str
    priority: int = 0
    owner: str | None = None
    worker: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """A tuning job and how far it is; `error_*` are set when it failed."""

    id: str
    trace_id: str | None
    trace_name: str
    engine: str
    options: Mapping[str, str]
    serving: Mapping[str, Any]
    budget: Mapping[str, Any]
    objective: str
    profile: str
    model: str | None
    trials: int
    seed: int
    holdout_share: float
    state: SweepState
    error_code: str | None
    error_message: str | None
    error_file: str | None
    error_line: int | None
    error_field: str | None
    lease_owner: str | None
    lease_until: datetime | None
    fence: int
    attempts: int
    progress_phase: str | None
    progress_done: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    not_before: datetime | None = None
    kind: JobKind = "tune"
    priority: int = 0
    owner: str | None = None
    schedule_id: str | None = None
    worker: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """One recorded trial; `document` is the caller's."""

    sweep_id: str
    number: int
    state: str
    document: Mapping[str, Any]
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class StoredRecommendation:
    """One recommendation; `digest` is the SHA-256 of its document in canonical JSON."""

    id: str
    sweep_id: str | None
    engine: str
    options: Mapping[str, str]
    verdict: str
    document: Mapping[str, Any]
    digest: str
    created_at: datetime

    @property
    def lists(self) -> Mapping[str, Sequence[int]]:
        """The chosen lists by name."""
        return cast(Mapping[str, Sequence[int]], self.document["lists"])


@dataclass(frozen=True, slots=True)
class RecommendationHead:
    """A recommendation without its document, but for the lists in it."""

    id: str
    sweep_id: str | None
    engine: str
    options: Mapping[str, str]
    verdict: str
    lists: Mapping[str, Sequence[int]]
    digest: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token without the token."""

    id: str
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredAudit:
    """One request for a change."""

    id: str
    created_at: datetime
    actor: str
    action: str
    target: str
    status: int


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """Tuning jobs to come; `job` is a document of the caller's making."""

    id: str
    name: str
    cron: str | None
    trace_name: str | None
    job: Mapping[str, Any]
    owner: str | None
    next_at: datetime | None
    fired_at: datetime | None
    last_error: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredWorker:
    """One device of one node; `state` is what the last look saw."""

    id: str
    node: str
    device: str
    memory_mib: float | None
    driver: str | None
    torch: str | None
    ray: str | None
    python: str | None
    state: WorkerState
    sweep_id: str | None
    current_size: int | None
    last_error: str | None
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Key:
    """A client's idempotency key, and the digest of the request that it stands for."""

    owner: str
    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on a sweep: valid while the sweep's fence is `fence`."""

    sweep_id: str
    fence: int


T = TypeVar("T", bound="DataclassInstance")


def record_of(kind: type[T], row: object) -> T:
    """The plain value of a row: every field of `kind` by its name."""
    return kind(**{item.name: getattr(row, item.name) for item in fields(kind)})


def digest_of(document: Mapping[str, Any] | Sequence[Any]) -> str:
    """SHA-256 over canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
