"""VerificationModel: a list replayed for real, beside what the profile had predicted."""

from __future__ import annotations

from typing import Any

from services.contract.plain import Answer
from services.contract.scorecard import ListsModel


class ListFigures(Answer):
    """One list on one workload; null where it is not known."""

    exact_hit_rate: float
    hit_rate: float
    padding_waste: float
    mean_step_ms: float | None
    tpot_ms: float | None
    capture_s: float | None
    memory_mib: float | None


class SizeFailureModel(Answer):
    size: int
    kind: str
    message: str


class VerificationModel(Answer):
    """Predicted figures count every step of the workload; measured ones the `steps_replayed` that stand for them.

    Attributes:
        device: where the list was captured and replayed, as the worker names it.
        same_device: whether the profile was recorded on such a device; only then may times be compared.
        step_error: predicted / measured mean step - 1 over the same replayed steps; null where either is unknown.
        clipped_share: share of replayed steps whose context was cut to the memory that was there.
    """

    device: str
    profile: str
    profile_device: str | None
    same_device: bool
    model: str
    attention: str
    lists: ListsModel
    captured: tuple[int, ...]
    steps_replayed: int
    steps_stood_for: float
    predicted: ListFigures
    measured: ListFigures
    step_error: float | None
    clipped_share: float
    failures: tuple[SizeFailureModel, ...]
    software: dict[str, Any]
    notes: tuple[str, ...]
