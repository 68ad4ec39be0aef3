"""ScorecardModel: what some lists do to a workload."""

from __future__ import annotations

from typing import Self

from services.contract.plain import Answer, plain
from tuner.recommendation import FrontPoint, Scorecard

ListsModel = dict[str, tuple[int, ...]]


class ScorecardModel(Answer):
    """See `tuner.recommendation.Scorecard`; null where profile or workload do not say."""

    lists: ListsModel
    list_length: int
    graphs: int
    exact_hit_rate: float
    hit_rate: float
    fallback_rate: float
    padding_waste: float
    mean_step_ms: float | None
    tpot_ms: float | None
    p99_step_ms: float | None
    worst_regret: float | None
    worst_regret_size: int | None = None
    capture_s: float | None
    memory_mib: float | None
    estimated_share: float = 0.0

    @classmethod
    def from_domain(cls, card: Scorecard) -> Self:
        return cls.model_validate(plain(card))


class FrontPointModel(Answer):
    """The best list of at most `list_length` sizes."""

    list_length: int
    sizes: tuple[int, ...]
    mean_step_ms: float
    tpot_ms: float | None
    capture_s: float | None
    memory_mib: float | None
    worst_regret: float | None
    p99_step_ms: float | None = None

    @classmethod
    def from_domain(cls, point: FrontPoint) -> Self:
        return cls.model_validate(plain(point))
