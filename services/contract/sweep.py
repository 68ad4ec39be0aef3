"""SweepCreate and SweepModel: a tuning job as asked for and as it stands; and the same job asked for again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, ConfigDict, Field, model_validator

from services.contract.budget import BudgetModel
from services.contract.error import ErrorModel
from services.contract.plain import Answer, Request, shown
from services.contract.serving import ServingOptionsModel
from services.contract.worker_wish import WorkerWish
from tuner.recommendation import Objective

SweepState = Literal["queued", "running", "complete", "failed", "cancelled"]

MEASURE = "measure"
"""`profile: "measure"` measures `model` on this machine's GPU before tuning."""


def measured_name(sweep_id: str) -> str:
    """The name of the profile that a sweep measures for itself."""
    return f"measured-{sweep_id}"


ShortText = Annotated[str, Field(min_length=1, max_length=300)]


Priority = Annotated[int, Field(ge=-10, le=10)]
EngineSpec = Annotated[str, Field(min_length=1, max_length=60, examples=["vllm@0.33.0"])]
ProfileRef = Annotated[str, Field(min_length=1, max_length=300, examples=["h200-llama-3.1-8b"])]
Options = dict[ShortText, Annotated[str, Field(max_length=1000)]]
Trials = Annotated[int, Field(ge=1, le=10_000)]
HoldoutShare = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]


class SweepWish(Request):
    """A tuning job without its trace: engine + profile + budget. `options` are the engine's own argument names as
    text; a job of higher `priority` is worked on first. `worker` says where profile "measure" may measure."""

    engine: EngineSpec
    profile: ProfileRef
    model: ShortText | None = None
    options: Options = Field(default_factory=dict)
    serving: ServingOptionsModel = ServingOptionsModel()
    budget: BudgetModel = BudgetModel()
    objective: Objective = "step"
    trials: Trials = 24
    holdout_share: HoldoutShare = 0.3
    seed: Seed = 0
    priority: Priority = 0
    worker: WorkerWish = WorkerWish()

    @model_validator(mode="after")
    def _model_when_measuring(self) -> Self:
        if (self.profile == MEASURE) != (self.model is not None):
            raise ValueError('`model` goes with profile "measure", and with that only')
        if self.profile != MEASURE and self.worker != WorkerWish():
            raise ValueError('`worker` goes with profile "measure", and with that only')
        return self


class SweepCreate(SweepWish):
    """A tuning job. Nobody works on it before `start_at`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "trace_id": "24abd41820d1",
                    "engine": "vllm@0.33.0",
                    "profile": "h200-llama-3.1-8b",
                    "options": {"max_num_seqs": "512"},
                    "serving": {"load": 2.0},
                    "budget": {"regret": 0.1, "max_length": 16},
                    "trials": 24,
                }
            ]
        }
    )

    trace_id: ShortText
    start_at: AwareDatetime | None = None


class SweepClone(Request):
    """What a new job shall have otherwise than the one it is made from."""

    model_config = shown({"engine": "vllm@0.11.0", "trials": 48})

    trace_id: ShortText | None = None
    engine: EngineSpec | None = None
    profile: ProfileRef | None = None
    model: ShortText | None = None
    options: Options | None = None
    serving: ServingOptionsModel | None = None
    budget: BudgetModel | None = None
    objective: Objective | None = None
    trials: Trials | None = None
    holdout_share: HoldoutShare | None = None
    seed: Seed | None = None
    priority: Priority | None = None
    worker: WorkerWish | None = None
    start_at: AwareDatetime | None = None


class SweepModel(Answer):
    """A tuning job. `trials_done` of `trials` are recorded; `phase` says what its process does now."""

    id: str
    trace_id: str | None
    trace_name: str
    engine: str
    profile: str
    model: str | None
    options: dict[str, str]
    serving: ServingOptionsModel
    budget: BudgetModel
    objective: Objective
    trials: int
    holdout_share: float
    seed: int
    state: SweepState
    phase: str | None
    trials_done: int
    error: ErrorModel | None
    recommendation_id: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    priority: int = 0
    owner: str | None = None
    start_at: datetime | None = None
    schedule_id: str | None = None
    worker: WorkerWish = WorkerWish()


class SweepsModel(Answer):
    """One page of sweeps, newest first."""

    items: tuple[SweepModel, ...]
    next_after: str | None = None
