"""ScheduleModel: tuning jobs to come, by the clock or by upload."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from services.contract.plain import Answer, Request
from services.contract.sweep import ShortText, SweepWish


class ScheduledJob(SweepWish):
    """The job; its trace is named by `trace_id`, or by the schedule's `trace_name`."""

    trace_id: ShortText | None = None


class ScheduleCreate(Request):
    """With `cron`: at these times (UTC; minute hour day month weekday), for `job.trace_id` or for the newest trace
    named `trace_name`. Without `cron`: for every new upload named `trace_name`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "every night",
                    "cron": "30 2 * * *",
                    "trace_name": "production.log",
                    "job": {"engine": "vllm@0.33.0", "profile": "h200-llama-3.1-8b"},
                }
            ]
        }
    )

    name: Annotated[str, Field(min_length=1, max_length=200)]
    cron: Annotated[str, Field(min_length=9, max_length=100, examples=["30 2 * * *"])] | None = None
    trace_name: ShortText | None = None
    job: ScheduledJob

    @model_validator(mode="after")
    def _one_trace(self) -> Self:
        if (self.trace_name is None) == (self.job.trace_id is None):
            raise ValueError("give either `trace_name` or `job.trace_id`")
        if self.cron is None and self.trace_name is None:
            raise ValueError("without `cron` a schedule waits for uploads and needs `trace_name`")
        return self


class ScheduleModel(Answer):
    """A schedule; `next_at` is unknown for one that waits for uploads."""

    id: str
    name: str
    cron: str | None
    trace_name: str | None
    job: ScheduledJob
    owner: str | None
    next_at: datetime | None
    fired_at: datetime | None
    last_error: str | None
    created_at: datetime


class CronTimesModel(Answer):
    """When a cron line fires next, soonest first."""

    cron: str
    times: tuple[datetime, ...]


class SchedulesModel(Answer):
    """One page of schedules, newest first."""

    items: tuple[ScheduleModel, ...]
    next_after: str | None = None
