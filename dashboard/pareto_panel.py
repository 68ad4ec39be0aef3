"""Trade-offs of a result: two selectable figures against each other, constraints as sliders."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import text
from dashboard.charts import show
from dashboard.client import ApiProblem
from dashboard.state import api, pick
from services.contract.figures_sweep import AXES, dominated, pareto_figure, value_of
from services.contract.recommendation import RecommendationModel
from services.contract.scorecard import FrontPointModel, ScorecardModel
from services.contract.trial import TrialModel

Words = tuple[float, float, str]
_SHOW_DOMINATED, _SHOW_INFEASIBLE = "dominated", "infeasible"


def pareto_panel(result: RecommendationModel) -> None:
    """The exact front, the sweep's trials, the default and the choice."""
    st.subheader("Trade-offs")
    trials = trials_of(result.sweep_id) if result.sweep_id else []
    left, right, toggles = st.columns([1, 1, 1], vertical_alignment="bottom")
    x = pick(left, "Across", list(AXES), "x", show=AXES.__getitem__, default=list(AXES).index("capture_s"))
    y = pick(right, "Up", list(AXES), "y", show=AXES.__getitem__)
    with toggles:
        with_dominated = st.toggle("Show dominated", True)
        with_infeasible = st.toggle("Show infeasible", False)
    limit = _limit(result, trials, x)
    groups = _groups(result, trials, x, y, limit)
    if not with_infeasible:
        groups.pop(_SHOW_INFEASIBLE, None)
    if not with_dominated:
        groups.pop(_SHOW_DOMINATED, None)
    show(pareto_figure(groups, x, y), "pareto", f"{AXES[y]} against {AXES[x]} of every list looked at")
    st.caption(
        "The exact front, the default and the choice are scored on the steps that the default makes; a trial on the "
        "steps that its own list makes, so it can lie below the front."
    )


@st.cache_data(ttl=600, max_entries=32, show_spinner=False)
def trials_of(sweep_id: str) -> list[TrialModel]:
    """The first thousand trials of an ended sweep; none where the sweep is gone."""
    try:
        return list(api().trials(sweep_id, limit=1000).items)
    except ApiProblem:
        return []


def _limit(result: RecommendationModel, trials: Sequence[TrialModel], x: str) -> float | None:
    """A slider that bounds the axis across; None where there is nothing to bound."""
    cards: list[ScorecardModel | FrontPointModel | None] = [*result.front, *(trial.scorecard for trial in trials)]
    values = [value for card in cards if (value := value_of(card, x)) is not None]
    if not values or min(values) == max(values):
        return None
    shown = 100.0 if x == "worst_regret" else 1.0
    low, high = shown * min(values), shown * max(values)
    unit = ", %" if x == "worst_regret" else ""
    label = f"At most, {AXES[x]}{unit}"
    top = st.slider(label, low, high, high, (high - low) / 200, format="%.2f", key=f"limit-{x}")
    return float(top) / shown * (1 + 1e-9)


def _groups(
    result: RecommendationModel, trials: Sequence[TrialModel], x: str, y: str, limit: float | None
) -> dict[str, list[Words]]:
    front = [_point(point, x, y, f"{point.list_length} sizes") for point in result.front]
    feasible = [_of_trial(trial, x, y) for trial in trials if trial.state == "complete"]
    refused = [_of_trial(trial, x, y) for trial in trials if trial.state == "infeasible"]
    kept = [point for point in feasible if point and (limit is None or point[0] <= limit)]
    worse = dominated([(point[0], point[1]) for point in kept])
    groups = {
        "exact front": [p for p in front if p],
        "trials": [point for point, bad in zip(kept, worse, strict=True) if not bad],
        _SHOW_DOMINATED: [point for point, bad in zip(kept, worse, strict=True) if bad],
        _SHOW_INFEASIBLE: [p for p in refused if p],
        "engine default": [p for p in [_point(result.default.scorecard, x, y, "engine default")] if p],
        "chosen": [p for p in [_point(result.scorecard, x, y, "chosen list")] if p],
    }
    return {name: [p for p in points if limit is None or p[0] <= limit] for name, points in groups.items()}


def _of_trial(trial: TrialModel, x: str, y: str) -> Words | None:
    length = trial.scorecard.list_length if trial.scorecard else None
    return _point(trial.scorecard, x, y, f"trial {trial.number}, {text.count(length, 'sizes')}")


def _point(card: ScorecardModel | FrontPointModel | None, x: str, y: str, words: str) -> Words | None:
    across, up = value_of(card, x), value_of(card, y)
    return None if across is None or up is None else (across, up, words)
