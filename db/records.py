"""What the store hands out: plain frozen values, never rows that hang on a session."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from workloads.traces.records import Kind

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SweepState = Literal["queued", "running", "complete", "failed", "cancelled"]
ENDED: tuple[SweepState, ...] = ("complete", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A stored trace without its columns. `rows` holds `read`, `kept`, `dropped`, `first_line`."""

    id: str
    digest: str
    name: str
    format: str
    kind: Kind
    rows: Mapping[str, Any]
    span_s: float | None
    notes: Sequence[str]
    observation: Mapping[str, Any] | None
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
    """A tuning job as it is asked for. `serving` and `budget` are documents of the caller's making."""

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
