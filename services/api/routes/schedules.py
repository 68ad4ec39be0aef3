"""Schedules: tuning jobs by the clock, or for every new upload of a named trace."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from db.base import now
from services.api.context import InOwner, InPage, InStore
from services.api.keys import IdempotencyKey, key_of, mark
from services.contract.schedule import ScheduleCreate, ScheduleModel, SchedulesModel
from services.sweeps.asking import checked
from services.sweeps.cron import next_time
from services.views import schedule_view

router = APIRouter(prefix="/schedules", tags=["schedules"])


@router.post("", status_code=201)
def create(
    store: InStore, owner: InOwner, response: Response, schedule: ScheduleCreate, key: IdempotencyKey = None
) -> ScheduleModel:
    """Keep a schedule; the runners queue its jobs."""
    checked(store, schedule.job)
    if schedule.job.trace_id is not None:
        store.traces.get(schedule.job.trace_id)
    stored, replayed = store.schedules.create_once(
        key_of(key, owner, "schedule", schedule),
        name=schedule.name,
        job=schedule.job.model_dump(mode="json"),
        cron=schedule.cron,
        trace_name=schedule.trace_name,
        next_at=None if schedule.cron is None else next_time(schedule.cron, now()),
        owner=owner,
    )
    mark(response, replayed)
    response.headers["Location"] = f"/api/v1/schedules/{stored.id}"
    return schedule_view(stored)


@router.get("")
def list_schedules(store: InStore, page: InPage) -> SchedulesModel:
    """Schedules, newest first."""
    found = store.schedules.page(page.limit, page.after)
    return SchedulesModel(items=tuple(schedule_view(item) for item in found.items), next_after=found.next_after)


@router.get("/{schedule_id}")
def show(store: InStore, schedule_id: str) -> ScheduleModel:
    """One schedule, when it fired and when it will."""
    return schedule_view(store.schedules.get(schedule_id))


@router.delete("/{schedule_id}", status_code=204)
def delete(store: InStore, schedule_id: str) -> None:
    """Queue no more jobs of it; those that it has queued stay."""
    store.schedules.delete(schedule_id)
