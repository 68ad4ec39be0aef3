"""Workers: the devices that measure."""

from __future__ import annotations

from fastapi import APIRouter

from services.api.context import InStore
from services.contract.worker import WorkerModel, WorkersModel

router = APIRouter(prefix="/workers", tags=["workers"])


@router.get("")
def list_workers(store: InStore) -> WorkersModel:
    """Every device that a job or a look at the cluster has seen, with what it does now."""
    return WorkersModel(items=tuple(WorkerModel.model_validate(w, from_attributes=True) for w in store.workers.list()))
