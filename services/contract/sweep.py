"""SweepCreate and SweepModel: a tuning job as asked for and as it stands."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from services.contract.budget import BudgetModel
from services.contract.error import ErrorModel
from services.contract.plain import Answer, Request
from services.contract.serving import ServingOptionsModel
from tuner.recommendation import Objective

SweepState = Literal["queued", "running", "complete", "failed", "cancelled"]

MEASURE = "measure"
"""`profile: "measure"` measures `model` on this machine's GPU before tuning."""

ShortText = Annotated[str, Field(min_length=1, max_length=300)]


class SweepCreate(Request):
    """A tuning job: trace + engine + profile + budget. `options` are the engine's own argument names as text."""

    trace_id: ShortText
    engine: Annotated[str, Field(min_length=1, max_length=60, examples=["vllm@0.33.0"])]
    profile: Annotated[str, Field(min_length=1, max_length=300, examples=["h200-llama-3.1-8b"])]
    model: ShortText | None = None
    options: dict[ShortText, Annotated[str, Field(max_length=1000)]] = Field(default_factory=dict)
    serving: ServingOptionsModel = ServingOptionsModel()
    budget: BudgetModel = BudgetModel()
    objective: Objective = "step"
    trials: Annotated[int, Field(ge=1, le=10_000)] = 24
    holdout_share: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.3
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0

    @model_validator(mode="after")
    def _model_when_measuring(self) -> Self:
        if (self.profile == MEASURE) != (self.model is not None):
            raise ValueError('`model` goes with profile "measure", and with that only')
        return self


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


class SweepsModel(Answer):
    """One page of sweeps, newest first."""

    items: tuple[SweepModel, ...]
    next_after: str | None = None
