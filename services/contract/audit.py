"""AuditModel: what an engine does today with its capture list."""

from __future__ import annotations

from typing import Any, Self

from services.contract.plain import Answer, plain
from tuner.audit import Audit


class PresentModel(Answer):
    """What runs today, as far as the source says."""

    lists: dict[str, tuple[int, ...]]
    options: dict[str, str]


class StepShareModel(Answer):
    """Shares of steps; they add up to 1."""

    exact: float
    padded: float
    fallback: float


class WarningModel(Answer):
    """One thing that looks wrong."""

    code: str
    message: str


class FamilyAuditModel(Answer):
    """The steps of one graph family; shares are of its steps."""

    steps: float
    exact: float
    padded: float
    fallback: float
    ceiling: int
    above_ceiling: float
    padding_waste: float


class AuditModel(Answer):
    """The keys of `captune audit`; the headline figures are those of the engine's first list."""

    engine: str
    present: PresentModel
    step_share: StepShareModel
    above_ceiling: float
    never_used: tuple[int, ...]
    padding_waste: float
    never_used_by_list: dict[str, tuple[int, ...]]
    families: dict[str, FamilyAuditModel]
    warnings: tuple[WarningModel, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def from_domain(cls, audit: Audit, *, notes: tuple[str, ...] = ()) -> Self:
        document: dict[str, Any] = plain(audit)
        present = {"lists": document["present_lists"], "options": document["present_options"]}
        return cls.model_validate({**document, "present": present, "notes": list(notes)})
