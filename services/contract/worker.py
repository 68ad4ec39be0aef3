"""WorkerModel: one device that measures."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from services.contract.plain import Answer


class WorkerModel(Answer):
    """As the last look at the cluster saw it; `refused` says in `last_error` why a node cannot be used."""

    id: str
    node: str
    device: str
    memory_mib: float | None
    driver: str | None
    torch: str | None
    ray: str | None
    python: str | None
    state: Literal["idle", "busy", "lost", "refused"]
    sweep_id: str | None
    current_size: int | None
    last_error: str | None
    seen_at: datetime


class WorkersModel(Answer):
    """All of them, by node and device."""

    items: tuple[WorkerModel, ...]
