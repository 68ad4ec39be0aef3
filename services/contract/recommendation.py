"""RecommendationModel: the answer of a tuning job, as stored, served and printed by `captune tune --json`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from services.contract.plain import Answer, plain
from services.contract.scorecard import FrontPointModel, ListsModel, ScorecardModel
from services.contract.serving import ServingReportModel
from tuner.recommendation import Holdout, Recommendation, Verdict

Counts = dict[int, float]

VERDICTS: Mapping[Verdict, str] = {
    "adopt": "Adopt it: confirmed in this engine on this GPU.",
    "try": "Try it: better by this profile, not yet confirmed in this engine.",
    "keep_default": "Keep the engine's default: nothing here is materially better.",
    "inconclusive": "Inconclusive: the evidence is too thin to say.",
}
"""What a verdict says to a person."""


class DefaultModel(Answer):
    """What the engine does by itself."""

    lists: ListsModel
    scorecard: ScorecardModel


class HoldoutModel(Answer):
    """A list of the same length fitted to the first part of the trace, scored on the rest."""

    share: float
    lists: ListsModel
    tuned: ScorecardModel
    default: ScorecardModel

    @classmethod
    def from_domain(cls, holdout: Holdout) -> Self:
        return cls.model_validate(plain(holdout))


class RecommendationModel(Answer):
    """The chosen lists with their evidence. `id`, `sweep_id` and `created_at` are null until it is stored."""

    id: str | None = None
    sweep_id: str | None = None
    created_at: datetime | None = None
    engine: str
    options: dict[str, str]
    lists: ListsModel
    scorecard: ScorecardModel
    default: DefaultModel
    verdict: Verdict
    reasons: tuple[str, ...]
    holdout: HoldoutModel | None
    evidence: dict[str, Any]
    front: tuple[FrontPointModel, ...]
    histogram: dict[str, Counts]
    serving: ServingReportModel | None

    @classmethod
    def from_domain(cls, recommendation: Recommendation, *, engine: str, options: Mapping[str, str]) -> Self:
        """`engine` is the engine's spec, `options` the raw `--set` pairs that it was tuned with."""
        return cls.model_validate(
            {
                "engine": engine,
                "options": dict(options),
                "lists": plain(recommendation.lists),
                "scorecard": plain(recommendation.scorecard),
                "default": {
                    "lists": plain(recommendation.default_lists),
                    "scorecard": plain(recommendation.default_scorecard),
                },
                "verdict": recommendation.verdict,
                "reasons": list(recommendation.reasons),
                "holdout": plain(recommendation.holdout),
                "evidence": plain(recommendation.evidence),
                "front": plain(recommendation.front),
                "histogram": plain(recommendation.histogram),
                "serving": plain(recommendation.serving),
            }
        )

    def document(self) -> dict[str, Any]:
        """What the store keeps: everything but the identity that storing gives it."""
        return self.model_dump(mode="json", exclude={"id", "sweep_id", "created_at"})


class RecommendationSummary(Answer):
    """A recommendation without its evidence."""

    id: str
    sweep_id: str | None
    created_at: datetime
    engine: str
    verdict: Verdict
    lists: ListsModel


class RecommendationsModel(Answer):
    """One page of recommendations, newest first."""

    items: tuple[RecommendationSummary, ...]
    next_after: str | None = None
