"""Measurements: profiles that are being measured."""

from __future__ import annotations

from fastapi import APIRouter

from services.api.context import InPage, InStore
from services.contract.measurement import MeasurementModel, MeasurementsModel
from services.views import measurement_view

router = APIRouter(prefix="/measurements", tags=["profiles"])


@router.get("")
def list_measurements(store: InStore, page: InPage) -> MeasurementsModel:
    """Measurements, newest first."""
    found = store.sweeps.page(page.limit, page.after, kind="measure")
    items = tuple(measurement_view(job) for job in found.items)
    return MeasurementsModel(items=items, next_after=found.next_after)


@router.get("/{measurement_id}")
def show(store: InStore, measurement_id: str) -> MeasurementModel:
    """One measurement as it stands."""
    return measurement_view(store.sweeps.get(measurement_id, "measure"))


@router.post("/{measurement_id}/cancel")
def cancel(store: InStore, measurement_id: str) -> MeasurementModel:
    """End a measurement now."""
    store.sweeps.get(measurement_id, "measure")
    return measurement_view(store.sweeps.cancel(measurement_id))
