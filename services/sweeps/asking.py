"""From what a person asks for to a job for the queue: checked as far as it can be checked now."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from db.records import NewSweep, StoredSchedule, StoredSweep
from db.store import Store
from services.catalog import find_profile
from services.contract.schedule import ScheduledJob
from services.contract.sweep import MEASURE, SweepClone, SweepCreate, SweepWish
from tuner.engines.registry import engine as find_engine
from workloads.errors import BadInput


def checked(store: Store, wish: SweepWish) -> str:
    """The engine's canonical spec, when engine, options, serving, budget and profile make sense.

    Raises:
        BadUsage, NotFound: what is wrong, by its field.
    """
    chosen = find_engine(wish.engine)
    chosen.options(wish.options)
    wish.serving.to_domain()
    wish.budget.to_domain()
    if wish.profile != MEASURE:
        find_profile(wish.profile, store, files=False)
    return chosen.spec


def new_sweep(store: Store, asked: SweepCreate, owner: str | None) -> NewSweep:
    """The job that `asked` describes; see `checked`."""
    spec = checked(store, asked)
    return NewSweep(trace_id=asked.trace_id, engine=spec, owner=owner, not_before=asked.start_at, **_same(asked))


def scheduled_sweep(schedule: StoredSchedule, trace_id: str) -> NewSweep:
    """The job of a schedule for a trace; it was checked when the schedule was made."""
    job = ScheduledJob.model_validate(schedule.job)
    spec = find_engine(job.engine).spec
    return NewSweep(trace_id=trace_id, engine=spec, owner=schedule.owner, schedule_id=schedule.id, **_same(job))


def cloned(stored: StoredSweep, change: SweepClone) -> SweepCreate:
    """What a stored job asked for, changed as asked.

    Raises:
        BadInput: the parts do not fit together.
    """
    names = [name for name in SweepWish.model_fields if name != "priority"]
    before: dict[str, Any] = {name: getattr(stored, name) for name in names}
    wanted = {name: getattr(change, name) for name in change.model_fields_set if getattr(change, name) is not None}
    if wanted.get("profile", MEASURE) != MEASURE:
        before |= {"model": None, "worker": {}}
    try:
        return SweepCreate.model_validate({**before, "trace_id": stored.trace_id or "deleted", **wanted})
    except ValidationError as error:
        raise BadInput(str(error.errors()[0]["msg"])) from None


def _same(wish: SweepWish) -> dict[str, Any]:
    return {
        "profile": wish.profile,
        "options": wish.options,
        "serving": wish.serving.model_dump(mode="json"),
        "budget": wish.budget.model_dump(mode="json"),
        "objective": wish.objective,
        "model": wish.model,
        "trials": wish.trials,
        "seed": wish.seed,
        "holdout_share": wish.holdout_share,
        "priority": wish.priority,
        "worker": wish.worker.model_dump(mode="json", exclude_defaults=True),
    }
