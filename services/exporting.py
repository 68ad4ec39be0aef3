"""From a stored recommendation to an engine's configuration; the API and the command line share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from db.records import RecommendationHead, StoredRecommendation
from services.contract.export import ExportModel
from tuner.engines.base import Engine, Lists, Provenance
from tuner.engines.registry import engine as find_engine


@dataclass(frozen=True, slots=True)
class Configuration:
    """What an export is made of.

    Attributes:
        raw: the options as text, by argument name.
        options: the same as the engine's own type.
    """

    engine: Engine
    lists: Lists
    raw: Mapping[str, str]
    options: Any
    provenance: Provenance


def recommended(
    stored: StoredRecommendation | RecommendationHead,
    engine: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Configuration:
    """What `stored` says to run on `engine`, the one tuned for by default; `options` go before those tuned with.

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
    return Configuration(chosen, lists, raw, chosen.options(raw), provenance)


def export_recommendation(
    stored: StoredRecommendation | RecommendationHead,
    engine: str | None = None,
    options: Mapping[str, str] | None = None,
) -> ExportModel:
    """The configuration for `engine`, as `recommended` has it.

    Raises:
        BadUsage: an unknown engine or option.
    """
    made = recommended(stored, engine, options)
    return ExportModel.of(made.engine, made.lists, made.options, made.provenance)
