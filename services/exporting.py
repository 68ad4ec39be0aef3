"""From a stored recommendation to an engine's configuration; the API and the command line share it."""

from __future__ import annotations

from collections.abc import Mapping

from db.records import RecommendationHead, StoredRecommendation
from services.contract.export import ExportModel
from tuner.engines.base import Provenance
from tuner.engines.registry import engine as find_engine


def export_recommendation(
    stored: StoredRecommendation | RecommendationHead,
    engine: str | None = None,
    options: Mapping[str, str] | None = None,
) -> ExportModel:
    """The configuration for `engine`, the one tuned for by default.

    For another engine the decode sizes carry over and the options do not: argument names are each engine's own.

    Raises:
        BadUsage: an unknown engine or option.
    """
    chosen = find_engine(engine or stored.engine)
    same_engine = chosen.name == stored.engine.partition("@")[0]
    raw = {**(stored.options if same_engine else {}), **(options or {})}
    lists = {name: tuple(sizes) for name, sizes in stored.lists.items()}
    if not same_engine:
        lists = {chosen.list_names[0]: next(iter(lists.values()))}
    provenance = Provenance(stored.id, stored.digest, stored.created_at.isoformat(timespec="seconds"))
    return ExportModel.of(chosen, lists, chosen.options(raw), provenance)
