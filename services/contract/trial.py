"""TrialModel: one trial of a sweep."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from services.contract.plain import Answer, plain
from services.contract.scorecard import ListsModel, ScorecardModel
from tuner.recommendation import Trial, TrialState


class TrialModel(Answer):
    """See `tuner.recommendation.Trial`; `recorded_at` is null until it is stored."""

    number: int
    source: str
    state: TrialState
    params: dict[str, Any]
    lists: ListsModel
    values: dict[str, float | None]
    scorecard: ScorecardModel | None
    reason: str | None = None
    recorded_at: datetime | None = None

    @classmethod
    def from_domain(cls, trial: Trial) -> Self:
        return cls.model_validate(plain(trial))


class TrialsModel(Answer):
    """Trials above a cursor; ask again with `after=next_after` while the sweep runs."""

    items: tuple[TrialModel, ...]
    next_after: int


class ImportanceModel(Answer):
    """Share of every sampled parameter in what moved `objective`, on at most `at_most` trials; empty: too few."""

    objective: str
    shares: dict[str, float]
    at_most: int
