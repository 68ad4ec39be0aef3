"""A tuned list beside other ladders: the engine's own, powers of two, other engines' defaults; each really scored."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.case import default_of, scored
from dashboard.client import ApiProblem
from dashboard.lists import powers_of_two
from dashboard.state import api
from dashboard.tables import table
from services.contract.coverage import ScoreRequest
from services.contract.recommendation import RecommendationModel
from services.contract.scorecard import ScorecardModel
from services.contract.sweep import MEASURE, SweepModel


def ladder_table(result: RecommendationModel) -> None:
    """Nothing where the sweep, its trace or its profile is gone."""
    sweep = _sweep(result)
    if sweep is None:
        return
    st.subheader("Against other ladders")
    rows = []
    for label, sizes in _ladders(result).items():
        card, problem = _card(sweep, result, sizes)
        rows.append({"List": label, **(card_row_of(card) if card else {"Mean step": problem})})
    table(rows, "ladders", alt="Ladders compared")
    st.caption("Each list meets the steps that it makes itself, so the figures can differ a little from those above.")


def card_row_of(card: ScorecardModel) -> dict[str, Any]:
    """A scorecard as cells."""
    return {
        "Sizes": card.list_length,
        "Mean step": text.ms(card.mean_step_ms),
        "Per token": text.ms(card.tpot_ms),
        "99th percentile": text.ms(card.p99_step_ms),
        "Worst regret": text.share(card.worst_regret),
        "Capture": text.seconds(card.capture_s),
        "Memory": text.mib(card.memory_mib),
        "Exact": text.share(card.exact_hit_rate),
        "No graph": text.share(card.fallback_rate),
    }


def _sweep(result: RecommendationModel) -> SweepModel | None:
    if result.sweep_id is None:
        return None
    try:
        sweep = api().sweep(result.sweep_id)
    except ApiProblem:
        return None
    return None if sweep.trace_id is None or sweep.profile == MEASURE else sweep


def _ladders(result: RecommendationModel) -> dict[str, tuple[int, ...]]:
    tuned = next(iter(result.lists.values()), ())
    default = next(iter(result.default.lists.values()), ())
    top = max((*tuned, *default), default=1)
    found = {
        "Tuned": tuned,
        f"{names.engine_name(result.engine)} default": default,
        "Powers of two": powers_of_two(top),
    }
    for engine in api().engines().items:
        if engine.name != result.engine.partition("@")[0]:
            own = default_of(engine.spec, ())[1]
            found[f"{names.engine_name(engine.spec)} default"] = tuple(size for size in own if size <= top)
    return {label: sizes for label, sizes in found.items() if sizes}


def _card(sweep: SweepModel, result: RecommendationModel, sizes: tuple[int, ...]) -> tuple[ScorecardModel | None, str]:
    name = next(iter(result.lists), "capture")
    asked = ScoreRequest(
        trace_id=sweep.trace_id or "",
        engine=sweep.engine,
        profile=sweep.profile,
        options=sweep.options,
        serving=sweep.serving,
        lists={name: list(sizes)},
    )
    try:
        return scored(asked.model_dump_json()).scorecard, ""
    except ApiProblem as problem:
        return None, str(problem)
