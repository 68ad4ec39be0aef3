"""MeasurementModel: a cost profile that a GPU worker is asked to measure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from services.contract.error import ErrorModel
from services.contract.plain import Answer, Request
from services.contract.sweep import Priority, SweepState
from services.contract.worker_wish import WorkerWish


class MeasurementCreate(Request):
    """Measure the built-in shape `model` and keep the profile as `name`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "tiny-llama", "name": "my-gpu"}]})

    model: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    priority: Priority = 0
    worker: WorkerWish = WorkerWish()


class MeasurementModel(Answer):
    """A measurement as it stands; when it is complete, `name` is a profile that sweeps can use."""

    id: str
    model: str
    name: str
    state: SweepState
    phase: str | None
    error: ErrorModel | None
    priority: int
    owner: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: WorkerWish = WorkerWish()


class MeasurementsModel(Answer):
    """One page of measurements, newest first."""

    items: tuple[MeasurementModel, ...]
    next_after: str | None = None
