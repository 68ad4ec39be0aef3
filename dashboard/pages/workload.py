"""Workload: which step sizes this traffic makes, and what the engine's list does with them today."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.charts import histogram_chart
from dashboard.comparison import card_row
from dashboard.pickers import pick_engine, pick_profile, pick_serving, pick_trace, workload_query
from dashboard.state import api, go, readable_errors
from services.contract.audit import AuditModel
from services.contract.histogram import HistogramModel
from services.contract.serving import ServingReportModel
from services.contract.trace import TraceModel


def page() -> None:
    st.caption("How large the steps are that an engine runs for this traffic, and how its capture list meets them.")
    with readable_errors():
        trace = pick_trace()
        if trace is None:
            return
        query = _controls(trace)
        if query is None:
            return
        with st.spinner("Simulating the service …" if trace.kind == "requests" else "Counting steps …"):
            histogram, audit = _answers(trace.id or "", query)
        _histogram(histogram, audit)
        _audit(audit)
        for note in dict.fromkeys((*histogram.notes, *audit.notes)):
            st.caption(note[:1].upper() + note[1:])
        if st.button("Tune for this trace", type="primary", icon=":material/tune:"):
            go("tune", trace=trace.id or "")


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def _answers(trace_id: str, query: dict[str, Any]) -> tuple[HistogramModel, AuditModel]:
    """Both views of one simulation; kept for a while, so that a click on the page does not run it again."""
    return api().histogram(trace_id, query), api().audit(trace_id, query)


def _controls(trace: TraceModel) -> dict[str, Any] | None:
    engine = pick_engine(_engine_of(trace))
    profile, serving = None, None
    if trace.kind == "requests":
        serving = pick_serving()
        profile = pick_profile()
        if profile is None:
            return None
    if engine.problem:
        return None
    return workload_query(engine, serving, profile.ref if profile else None)


def _engine_of(trace: TraceModel) -> str | None:
    seen = trace.observation
    return f"{seen.engine}@{seen.version}" if seen and seen.engine and seen.version else None


def _histogram(histogram: HistogramModel, audit: AuditModel) -> None:
    st.subheader("Step sizes")
    if histogram.serving is not None:
        _serving(histogram.serving)
    families = list(histogram.families)
    for name, tab in zip(families, st.tabs([names.family_name(name) for name in families]), strict=True):
        family = histogram.families[name]
        with tab:
            histogram_chart(name, family, histogram.lists or audit.present.lists)
            steps = sum(family.counts.values())
            st.caption(f"{text.count(steps, 'steps')}; {names.ORIGINS.get(family.origin, family.origin)}.")


def _serving(report: ServingReportModel) -> None:
    sentence = _utilisation_sentence(report)
    if report.overloaded:
        st.warning(sentence, icon=":material/trending_up:")
    else:
        st.write(sentence)


def _utilisation_sentence(report: ServingReportModel) -> str:
    load = "an unknown share" if report.load_share is None else text.share(report.load_share)
    running = (
        "" if report.mean_running is None else f" On average {text.digits(report.mean_running)} requests run at once"
    )
    wait = f"one in a hundred waits longer than {text.seconds(report.queue_wait_p99_s)} to start"
    if report.overloaded:
        return (
            f"Overloaded: the engine is offered {load} of the tokens that it can sustain, so its queue grows; {wait}."
        )
    peak = f", {text.count(report.peak_running)} at most" if running else ""
    return f"The engine is offered {load} of the tokens that it can sustain.{running}{peak}; {wait}."


def _audit(audit: AuditModel) -> None:
    st.subheader("What the engine's list does today")
    row = card_row()
    row.metric(
        "Exact hits", text.share(audit.step_share.exact), help="Steps that have exactly a captured size.", width=150
    )
    row.metric(
        "Padded hits", text.share(audit.step_share.padded), help="Steps padded up to a captured size.", width=150
    )
    row.metric("Without a graph", text.share(audit.step_share.fallback), help="Steps that no graph serves.", width=150)
    row.metric("Above the ceiling", text.share(audit.above_ceiling), help="Steps above the largest size.", width=150)
    row.metric("Padding waste", text.share(audit.padding_waste), help="Padded slots in executed slots.", width=150)
    for name, sizes in audit.present.lists.items():
        st.markdown(f"**{name.capitalize()} list, {text.count(len(sizes), 'sizes')}:** {text.short_sizes(sizes)}")
    if audit.never_used:
        unused = text.count(len(audit.never_used), "sizes")
        st.markdown(f"**Never used, {unused}:** {text.short_sizes(audit.never_used)}")
    for warning in audit.warnings:
        st.warning(warning.message, icon=":material/warning:")


page()
