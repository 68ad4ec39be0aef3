"""From stored records to the contract's models: the one place that knows both."""

from __future__ import annotations

from typing import Any, cast

from db.records import (
    RecommendationHead,
    StoredProfile,
    StoredRecommendation,
    StoredSchedule,
    StoredSweep,
    StoredTrace,
    StoredTrial,
)
from services.contract.error import ErrorModel
from services.contract.measurement import MeasurementModel
from services.contract.plain import plain
from services.contract.profile import ProfileSummary
from services.contract.recommendation import RecommendationModel, RecommendationSummary
from services.contract.schedule import ScheduleModel
from services.contract.sweep import SweepModel
from services.contract.trace import TraceModel
from services.contract.trial import TrialModel
from services.contract.worker_wish import WorkerWish
from tuner.profile_file import parse_profile
from tuner.recommendation import Verdict


def trace_view(stored: StoredTrace, summary: dict[str, Any] | None = None) -> TraceModel:
    """A stored trace; `summary` needs its columns and is left out of lists."""
    return TraceModel.model_validate(
        {
            "id": stored.id,
            "name": stored.name,
            "created_at": stored.created_at,
            "format": stored.format,
            "kind": stored.kind,
            "rows_read": stored.rows["read"],
            "rows_kept": stored.rows["kept"],
            "dropped": stored.rows["dropped"],
            "first_dropped_line": stored.rows["first_line"],
            "span_s": stored.span_s,
            "notes": stored.notes,
            "observation": stored.observation,
            "tags": tuple(stored.tags),
            "origin": stored.origin,
            "summary": plain(summary or {}),
        }
    )


def profile_view(stored: StoredProfile) -> ProfileSummary:
    """A stored profile without its points."""
    profile = parse_profile(stored.document, file=stored.name)
    return ProfileSummary.from_domain(
        profile, origin="stored", ref=stored.id, id=stored.id, created_at=stored.created_at
    )


def sweep_view(stored: StoredSweep, recommendation_id: str | None = None) -> SweepModel:
    """A sweep as it stands."""
    return SweepModel.model_validate(
        {
            "id": stored.id,
            "trace_id": stored.trace_id,
            "trace_name": stored.trace_name,
            "engine": stored.engine,
            "profile": stored.profile,
            "model": stored.model,
            "options": stored.options,
            "serving": stored.serving,
            "budget": stored.budget,
            "objective": stored.objective,
            "trials": stored.trials,
            "holdout_share": stored.holdout_share,
            "seed": stored.seed,
            "state": stored.state,
            "phase": _phase(stored),
            "trials_done": stored.progress_done,
            "error": error_view(stored),
            "recommendation_id": recommendation_id,
            "created_at": stored.created_at,
            "started_at": stored.started_at,
            "finished_at": stored.finished_at,
            "priority": stored.priority,
            "owner": stored.owner,
            "start_at": stored.not_before,
            "schedule_id": stored.schedule_id,
            "worker": stored.worker,
        }
    )


def _phase(stored: StoredSweep) -> str | None:
    """What is being done, or why a job that was begun waits again."""
    return stored.progress_phase if stored.state in ("running", "queued") else None


def measurement_view(stored: StoredSweep) -> MeasurementModel:
    """A measurement as it stands."""
    return MeasurementModel(
        id=stored.id,
        model=stored.model or "",
        name=stored.profile,
        state=stored.state,
        phase=_phase(stored),
        error=error_view(stored),
        priority=stored.priority,
        owner=stored.owner,
        created_at=stored.created_at,
        started_at=stored.started_at,
        finished_at=stored.finished_at,
        worker=WorkerWish.model_validate(stored.worker),
    )


def schedule_view(stored: StoredSchedule) -> ScheduleModel:
    """A schedule."""
    return ScheduleModel.model_validate(
        {name: getattr(stored, name) for name in ScheduleModel.model_fields if name != "job"} | {"job": stored.job}
    )


def recommendation_summary(stored: RecommendationHead) -> RecommendationSummary:
    """A recommendation as lists show it."""
    return RecommendationSummary(
        id=stored.id,
        sweep_id=stored.sweep_id,
        created_at=stored.created_at,
        engine=stored.engine,
        verdict=cast(Verdict, stored.verdict),
        lists={name: tuple(sizes) for name, sizes in stored.lists.items()},
    )


def error_view(stored: StoredSweep) -> ErrorModel | None:
    """Why a sweep failed."""
    if stored.error_code is None:
        return None
    where = [stored.error_file, str(stored.error_line) if stored.error_line else None, stored.error_field]
    return ErrorModel(
        title=stored.error_code.replace("_", " "),
        status=500,
        detail=": ".join([*(part for part in where if part), stored.error_message or ""]),
        code=stored.error_code,
        file=stored.error_file,
        line=stored.error_line,
        field=stored.error_field,
    )


def trial_view(stored: StoredTrial) -> TrialModel:
    """A recorded trial."""
    return TrialModel.model_validate({**stored.document, "recorded_at": stored.recorded_at})


def recommendation_view(stored: StoredRecommendation) -> RecommendationModel:
    """A stored recommendation with the identity that storing gave it."""
    identity = {"id": stored.id, "sweep_id": stored.sweep_id, "created_at": stored.created_at}
    return RecommendationModel.model_validate({**stored.document, **identity})
