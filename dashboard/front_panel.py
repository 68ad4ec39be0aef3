"""The exact front of a result: a slider over list lengths, and what the picked list would do."""

from __future__ import annotations

import streamlit as st

from dashboard import basket, text
from dashboard.charts import list_for, result_histogram_chart, show, unit_of
from dashboard.client import ApiProblem
from dashboard.comparison import card, card_row
from dashboard.evidence import noise_share
from dashboard.list_editor import use
from dashboard.profile_comparison import profile_of
from dashboard.state import choose, chosen, go, open_tab
from services.contract.figures import front_choice_figure
from services.contract.recommendation import RecommendationModel
from services.contract.scorecard import FrontPointModel


def front_panel(result: RecommendationModel) -> None:
    """Nothing where the result has no front."""
    if not result.front:
        return
    st.subheader("The best list of every length")
    point = _picked(result)
    figure = front_choice_figure(result.front, result.default.scorecard, result.scorecard, point)
    show(figure, "front", "Mean step time of the best list of every length; default, chosen and picked list as points")
    _cards(point, result)
    st.markdown(f"**{text.count(len(point.sizes), 'sizes')}:** {text.short_sizes(point.sizes)}")
    with st.container(horizontal=True):
        if st.button("Look at it size by size", icon=":material/stacked_bar_chart:"):
            use(point.sizes)
            go("coverage", engine=result.engine)
        if st.button("Export it", icon=":material/ios_share:", key="export-picked"):
            use(point.sizes)
            go("export", engine=result.engine, export_of="list")
        basket.add_button("list", point.sizes, suffix="-front")


def _picked(result: RecommendationModel) -> FrontPointModel:
    points = {point.list_length: point for point in result.front}
    lengths = list(points)
    own = result.scorecard.list_length
    nearest = min(lengths, key=lambda length: abs(length - own))
    typed = chosen("k")
    start = int(typed) if typed and typed.isdigit() and int(typed) in points else nearest
    if len(lengths) == 1:
        return points[lengths[0]]
    length = st.select_slider(
        "At most so many sizes",
        lengths,
        start,
        key=f"k-{result.id}",
        help="Drag it, or use the arrow keys: every length has its best list.",
    )
    choose("k", None if length == nearest else str(length))
    return points[length]


def _cards(point: FrontPointModel, result: RecommendationModel) -> None:
    old = result.default.scorecard
    row = card_row()
    noise = noise_share(result)
    card(row, "Mean step", text.ms, point.mean_step_ms, old.mean_step_ms, noise_share=noise)
    card(row, "Time per token", text.ms, point.tpot_ms, old.tpot_ms, noise_share=noise)
    card(row, "Worst regret", text.share, point.worst_regret, old.worst_regret, relative=False)
    card(row, "Sizes", text.count, len(point.sizes), old.list_length)
    card(row, "Capture time", text.seconds, point.capture_s, old.capture_s)
    card(row, "Graph memory", text.mib, point.memory_mib, old.memory_mib)


def over_traffic(result: RecommendationModel) -> None:
    """The tuned list and the default over the histogram that the choice rests on."""
    st.subheader("The list over the traffic")
    for name, sizes in result.lists.items():
        st.markdown(f"**{name.capitalize()} list, {text.count(len(sizes), 'sizes')}:** {text.short_sizes(sizes)}")
    for family, counts in result.histogram.items():
        label, place = open_tab(["Tuned list", "Engine default"], f"over_{family}")
        lists, name = (result.lists, "tuned") if label == "Tuned list" else (result.default.lists, "default")
        with place:
            sizes = list_for(family, lists)
            result_histogram_chart(family, counts, sizes, f"{name}-{family}", unit=_unit(result, family))


def _unit(result: RecommendationModel, family: str) -> str:
    """What the sizes count: what the profile says that timed them; the engine's rule where it is gone."""
    reference = (result.evidence.get("profile") or {}).get("name")
    try:
        known = profile_of(str(reference)).families.get(family) if reference else None
    except ApiProblem:
        known = None
    return known.unit if known else unit_of(result.engine, family)
