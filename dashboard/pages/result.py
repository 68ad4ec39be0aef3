"""Result: the verdict first, then what it rests on, then what to paste."""

from __future__ import annotations

import streamlit as st

from dashboard import names, text
from dashboard.charts import front_chart, list_for, result_histogram_chart
from dashboard.comparison import cards, holdout_cards
from dashboard.evidence import basis, evidence_table, verdict_sentence
from dashboard.export_panel import export_panel
from dashboard.pickers import sweep_label
from dashboard.state import api, choose, chosen, go, readable_errors
from services.contract.recommendation import RecommendationModel


def page() -> None:
    with readable_errors():
        identity = _picked()
        if identity is None:
            return
        result = api().recommendation(identity)
        _verdict(result)
        _reasons(result)
        _lists(result)
        _front(result)
        _holdout(result)
        export_panel(result)
        with st.expander("Evidence"):
            evidence_table(result)


def _picked() -> str | None:
    done = {sweep.recommendation_id: sweep for sweep in api().sweeps().items if sweep.recommendation_id}
    wanted = chosen("recommendation")
    if wanted is not None and wanted not in done:
        return wanted  # a link to a result whose sweep is not on the first page
    if not done:
        st.info("No result yet. A sweep that completes leaves one here.", icon=":material/tune:")
        if st.button("Start a sweep", type="primary"):
            go("tune")
        return None
    ids = list(done)
    index = ids.index(wanted) if wanted in done else 0
    picked = st.selectbox("Result of", ids, index=index, format_func=lambda key: sweep_label(done[key]))
    choose("recommendation", picked)
    return picked


def _verdict(result: RecommendationModel) -> None:
    label, colour, icon = names.VERDICTS[result.verdict]
    old, new = result.default.scorecard, result.scorecard
    st.header(verdict_sentence(result), anchor=False)
    with st.container(horizontal=True):
        st.badge(label, color=colour, icon=icon)
        st.badge(basis(result), color="gray", icon=":material/fact_check:")
    cards(new, old)


def _lists(result: RecommendationModel) -> None:
    st.subheader("The list over the traffic")
    for name, sizes in result.lists.items():
        st.markdown(f"**{name.capitalize()} list, {text.count(len(sizes), 'sizes')}:** {text.short_sizes(sizes)}")
    for family, counts in result.histogram.items():
        tuned, default = st.tabs(["Tuned list", "Engine default"])
        with tuned:
            result_histogram_chart(family, counts, list_for(family, result.lists), f"tuned-{family}")
        with default:
            result_histogram_chart(family, counts, list_for(family, result.default.lists), f"default-{family}")


def _reasons(result: RecommendationModel) -> None:
    st.subheader("Why")
    st.markdown("\n".join(f"- {reason}" for reason in result.reasons))


def _front(result: RecommendationModel) -> None:
    if not result.front:
        return
    st.subheader("The best list of every length")
    front_chart(result)


def _holdout(result: RecommendationModel) -> None:
    st.subheader("On traffic that was kept out")
    if result.holdout is None:
        st.caption("Nothing was kept out, or the traffic has no order to split.")
        return
    st.caption(
        f"A list of the same length was fitted to the first {text.share(1 - result.holdout.share)} of the trace "
        f"and met the last {text.share(result.holdout.share)} for the first time."
    )
    holdout_cards(result.holdout)


page()
