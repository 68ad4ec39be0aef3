"""From a stored id to the recommendation that a report is made of."""

from __future__ import annotations

from db.store import Store
from services.contract.recommendation import RecommendationModel
from services.views import recommendation_view
from workloads.errors import NotFound


def stored_recommendation(store: Store, reference: str) -> RecommendationModel:
    """A recommendation by its own id, or by that of the sweep that made it.

    Raises:
        NotFound: neither is stored, or the sweep has no recommendation.
    """
    try:
        return recommendation_view(store.recommendations.get(reference))
    except NotFound:
        made = store.recommendations.of_sweep(reference)
    if made is None:
        raise NotFound(f"'{reference}' is no stored recommendation, and no sweep that made one")
    return recommendation_view(made)
