"""Result: the verdict first, then what it rests on, then what to paste."""

from __future__ import annotations

from functools import partial

import streamlit as st

from dashboard import basket, names, text
from dashboard.charts import list_for, show
from dashboard.client import ApiProblem
from dashboard.comparison import cards, holdout_cards
from dashboard.evidence import basis, basis_icon, evidence_table, noise_share, verdict_sentence
from dashboard.export_panel import export_panel
from dashboard.front_panel import front_panel, over_traffic
from dashboard.ladders import ladders_panel
from dashboard.pareto_panel import pareto_panel
from dashboard.pickers import sweep_label
from dashboard.profile_comparison import doubtful_of, profile_of
from dashboard.service_panel import service_panel
from dashboard.state import api, choose, chosen, folded, go, readable_errors
from services.contract.figures_profile import Curve, curve_figure
from services.contract.recommendation import RecommendationModel

_REPORTS = (("html", "Report as HTML", "html", "text/html"), ("markdown", "Report as Markdown", "md", "text/markdown"))


def page() -> None:
    with readable_errors():
        identity = _picked()
        if identity is None:
            return
        result = api().recommendation(identity)
        _verdict(result)
        _reasons(result)
        ladders_panel(result)
        service_panel(result)
        over_traffic(result)
        _staircase(result)
        front_panel(result)
        pareto_panel(result)
        _holdout(result)
        export_panel(result)
        facts = folded("Evidence", "evidence")
        if facts is not None:
            with facts:
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
    picked = st.selectbox("Result of", ids, index, lambda key: sweep_label(done[key]), key="recommendation")
    choose("recommendation", picked)
    return picked


def _verdict(result: RecommendationModel) -> None:
    label, colour, icon = names.VERDICTS[result.verdict]
    old, new = result.default.scorecard, result.scorecard
    st.header(verdict_sentence(result), anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(label, color=colour, icon=icon)
        st.badge(basis(result), color="gray", icon=basis_icon(result))
        basket.add_button("result", result.id or "")
        for form, words, suffix, mime in _REPORTS:
            st.download_button(
                words,
                partial(api().report, result.id or "", form),
                file_name=f"captune-report-{result.id}.{suffix}",
                mime=mime,
                icon=":material/description:",
                type="tertiary",
                on_click="ignore",
            )
    cards(new, old, noise_share(result))


def _reasons(result: RecommendationModel) -> None:
    st.subheader("Why")
    st.markdown("\n".join(f"- {reason}" for reason in result.reasons))


def _staircase(result: RecommendationModel) -> None:
    """The chosen sizes on the measured curve; nothing where the profile is gone."""
    family = next(iter(result.histogram), "")
    reference = (result.evidence.get("profile") or {}).get("name")
    if not reference:
        return
    try:
        profile = profile_of(str(reference))
    except ApiProblem:
        return
    if family not in profile.families:
        return
    st.subheader("The list over the measured staircase")
    curve = Curve.of(profile.document, family, profile.name)
    figure = curve_figure(curve, list_for(family, result.lists), doubtful_of(str(reference), family))
    show(figure, "staircase", "Measured time of every size with the captured sizes marked")


def _holdout(result: RecommendationModel) -> None:
    st.subheader("On traffic that was kept out")
    if result.holdout is None:
        st.caption("Nothing was kept out, or the traffic has no order to split.")
        return
    st.caption(
        f"A list of the same length was fitted to the first {text.share(1 - result.holdout.share)} of the trace "
        f"and met the last {text.share(result.holdout.share)} for the first time."
    )
    holdout_cards(result.holdout, noise_share(result))


page()
