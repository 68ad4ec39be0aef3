"""Models that a worker can measure by name."""

from __future__ import annotations

from fastapi import APIRouter

from services.contract.model import ModelsModel

router = APIRouter(prefix="/models", tags=["profiles"])


@router.get("")
def list_models() -> ModelsModel:
    """The built-in model shapes; any other is measured by `captune profile measure` with its `config.json`."""
    return ModelsModel.builtin()
