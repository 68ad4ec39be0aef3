"""Schedules: tuning jobs by the clock, or for every new upload of a named trace."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from db.base import now
from services.api.context import InOwner, InPage, InStore
from services.api.keys import IdempotencyKey, key_of, mark
from services.contract.plain import Request
from services.contract.schedule import CronTimesModel, ScheduleCreate, ScheduleModel, SchedulesModel
from services.sweeps.asking import checked
from services.sweeps.cron import next_time
from services.views import schedule_view

router = APIRouter(tags=["schedules"])


class CronQuery(Request):
    """A cron line in UTC: minute hour day month weekday."""

    cron: Annotated[str, Field(min_length=9, max_length=100, examples=["30 2 * * *"])]
    count: Annotated[int, Field(ge=1, le=20)] = 3


@router.get("/cron-times")
def cron_times(query: Annotated[CronQuery, Query()]) -> CronTimesModel:
    """What a cron line means, before a schedule is made of it."""
    times = [now()]
    for _ in range(query.count):
        times.append(next_time(query.cron, times[-1]))
    return CronTimesModel(cron=query.cron, times=tuple(times[1:]))


@router.post("/schedules", status_code=201)
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


@router.get("/schedules")
def list_schedules(store: InStore, page: InPage) -> SchedulesModel:
    """Schedules, newest first."""
    found = store.schedules.page(page.limit, page.after)
    return SchedulesModel(items=tuple(schedule_view(item) for item in found.items), next_after=found.next_after)


@router.get("/schedules/{schedule_id}")
def show(store: InStore, schedule_id: str) -> ScheduleModel:
    """One schedule, when it fired and when it will."""
    return schedule_view(store.schedules.get(schedule_id))


@router.delete("/schedules/{schedule_id}", status_code=204)
def delete(store: InStore, schedule_id: str) -> None:
    """Queue no more jobs of it; those that it has queued stay."""
    store.schedules.delete(schedule_id)
