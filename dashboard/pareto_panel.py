"""Trade-offs of a result: two selectable figures against each other, constraints as sliders; all of it in the URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard import text
from dashboard.charts import show
from dashboard.client import ApiProblem
from dashboard.state import api, choose, chosen, flag, pick
from services.contract.figures_sweep import AXES, dominated, pareto_figure, value_of
from services.contract.recommendation import RecommendationModel
from services.contract.scorecard import FrontPointModel, ScorecardModel
from services.contract.trial import TrialModel

Card = ScorecardModel | FrontPointModel | None
Words = tuple[float, float, str]
Limits = Mapping[str, float]
_SHOW_DOMINATED, _SHOW_INFEASIBLE = "dominated", "infeasible"
_CONSTRAINED = ("worst_regret", "list_length", "capture_s", "memory_mib")
_PERCENT = 100.0


def pareto_panel(result: RecommendationModel) -> None:
    """The exact front, the sweep's trials, the default and the choice."""
    st.subheader("Trade-offs")
    trials = trials_of(result.sweep_id) if result.sweep_id else []
    left, right, toggles = st.columns([1, 1, 1], vertical_alignment="bottom")
    x = pick(left, "Across", list(AXES), "x", show=AXES.__getitem__, default=list(AXES).index("capture_s"))
    y = pick(right, "Up", list(AXES), "y", show=AXES.__getitem__)
    with_dominated = flag(toggles, "Show dominated", "dominated", on=True)
    with_infeasible = flag(toggles, "Show infeasible", "infeasible")
    limits = _limits([*result.front, *(trial.scorecard for trial in trials)])
    groups = _groups(result, trials, x, y, limits)
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


def _limits(cards: Sequence[Card]) -> Limits:
    """What the sliders allow at most; a figure that does not vary has no slider."""
    ranges = {}
    for axis in _CONSTRAINED:
        values = [value for card in cards if (value := value_of(card, axis)) is not None]
        if values and max(values) > min(values):
            ranges[axis] = (min(values), max(values))
    limits: dict[str, float] = {}
    if not ranges:
        return limits
    for place, (axis, bounds) in zip(st.columns(len(ranges)), ranges.items(), strict=True):
        with place:
            limits[axis] = _slider(axis, *bounds)
    return limits


def _slider(axis: str, low: float, high: float) -> float:
    """The chosen limit; the top of the slider is no limit."""
    scale = _PERCENT if axis == "worst_regret" else 1.0
    label = f"At most, {AXES[axis]}{', %' if axis == 'worst_regret' else ''}"
    name = f"limit_{axis}"
    if axis == "list_length":
        start = int(_within(chosen(name), low, high))
        top: float = st.slider(label, int(low), int(high), start, key=name)
    else:
        bounds = (low * scale, high * scale)
        start_at = _within(chosen(name), *bounds)
        top = st.slider(label, *bounds, start_at, (bounds[1] - bounds[0]) / 200, format="%.2f", key=name)
    choose(name, None if top >= high * scale else f"{top:.6g}")
    return float("inf") if top >= high * scale else top / scale * (1 + 1e-9)


def _within(typed: str | None, low: float, high: float) -> float:
    """A number of the URL inside the bounds; the upper one where it is none."""
    try:
        return min(high, max(low, float(typed))) if typed else high
    except ValueError:
        return high


def _groups(
    result: RecommendationModel, trials: Sequence[TrialModel], x: str, y: str, limits: Limits
) -> dict[str, list[Words]]:
    front = [_point(point, x, y, f"{point.list_length} sizes", limits) for point in result.front]
    feasible = [_of_trial(trial, x, y, limits) for trial in trials if trial.state == "complete"]
    refused = [_of_trial(trial, x, y, limits) for trial in trials if trial.state == "infeasible"]
    kept = [point for point in feasible if point]
    worse = dominated([(point[0], point[1]) for point in kept])
    return {
        "exact front": [p for p in front if p],
        "trials": [point for point, bad in zip(kept, worse, strict=True) if not bad],
        _SHOW_DOMINATED: [point for point, bad in zip(kept, worse, strict=True) if bad],
        _SHOW_INFEASIBLE: [p for p in refused if p],
        "engine default": [p for p in [_point(result.default.scorecard, x, y, "engine default", limits)] if p],
        "chosen": [p for p in [_point(result.scorecard, x, y, "chosen list", limits)] if p],
    }


def _of_trial(trial: TrialModel, x: str, y: str, limits: Limits) -> Words | None:
    length = trial.scorecard.list_length if trial.scorecard else None
    return _point(trial.scorecard, x, y, f"trial {trial.number}, {text.count(length, 'sizes')}", limits)


def _point(card: Card, x: str, y: str, words: str, limits: Limits) -> Words | None:
    """A point of the plot; None where a figure is unknown or a limit is passed."""
    across, up = value_of(card, x), value_of(card, y)
    if across is None or up is None:
        return None
    passed = any((value := value_of(card, axis)) is not None and value > most for axis, most in limits.items())
    return None if passed else (across, up, words)
