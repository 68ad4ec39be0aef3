"""Workload: which step sizes this traffic makes, and what the engine's list does with them today."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.audit_panel import audit_panel, serving_panel
from dashboard.case import engine_of
from dashboard.charts import histogram_chart
from dashboard.pickers import pick_engine, pick_profile, pick_serving, pick_trace, workload_query
from dashboard.shape_panel import shape_of, shape_panel
from dashboard.state import api, folded, go, open_tab, pick, readable_errors
from dashboard.tables import table
from services.contract.audit import AuditModel
from services.contract.histogram import HistogramModel
from services.contract.shape import ShapeModel
from services.contract.trace import FamilyHistogramModel, TraceModel

_WEIGHTS = {"steps": "Steps", "time": "Time"}
_SCALES = {"linear": "Linear", "log": "Logarithmic"}
_PERCENTILES = (0.5, 0.9, 0.99, 1.0)


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
            asked = json.dumps(query)
            histogram, audit = _answers(trace.id or "", asked)
            shape = shape_of(trace.id or "", asked)
        _histogram(histogram, audit, shape)
        st.subheader("What the engine's list does today")
        audit_panel(audit)
        for note in dict.fromkeys((*histogram.notes, *audit.notes)):
            st.caption(names.spoken(note))
        with st.container(horizontal=True):
            if st.button("Tune for this trace", type="primary", icon=":material/tune:"):
                go("tune", trace=trace.id or "")
            if st.button("See its list size by size", icon=":material/stacked_bar_chart:"):
                go("coverage", trace=trace.id or "")
        shape_panel(trace.id or "", asked, histogram)


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def _answers(trace_id: str, query: str) -> tuple[HistogramModel, AuditModel]:
    """Two views of one simulation; kept for a while, so that a click on the page does not run it again."""
    asked: dict[str, Any] = json.loads(query)
    return api().histogram(trace_id, asked), api().audit(trace_id, asked)


def _controls(trace: TraceModel) -> dict[str, Any] | None:
    engine = pick_engine(engine_of(trace))
    profile, serving = None, None
    if trace.kind == "requests":
        serving = pick_serving()
        profile = pick_profile()
        if profile is None:
            return None
    if engine.problem:
        return None
    return workload_query(engine, serving, profile.ref if profile else None)


def _histogram(histogram: HistogramModel, audit: AuditModel, shape: ShapeModel) -> None:
    st.subheader("Step sizes")
    if histogram.serving is not None:
        serving_panel(histogram.serving)
    left, right, _ = st.columns([1, 1, 2])
    weight = pick(left, "Weighted by", list(_WEIGHTS), "weight", show=_WEIGHTS.__getitem__)
    scale = pick(right, "Scale", list(_SCALES), "scale", show=_SCALES.__getitem__)
    if histogram.families:
        labels = {names.family_name(name): name for name in histogram.families}
        label, place = open_tab(list(labels), "family")
        name = labels[label]
        timed = shape.step_ms if weight == "time" and name == shape.family else None
        with place:
            lists = histogram.lists or audit.present.lists
            histogram_chart(name, histogram.families[name], lists, log=scale == "log", step_ms=timed)
            st.caption(_family_words(histogram.families[name]))
            if weight == "time" and not timed:
                st.caption("Weighted by steps: no profile knows the time of these steps.")
    counts = folded("Counts as a table", "counts")
    if counts is not None:
        with counts:
            _counts(histogram)


def _family_words(family: FamilyHistogramModel) -> str:
    steps = text.count(sum(family.counts.values()), "steps")
    return f"{steps}; {names.ORIGINS.get(family.origin, family.origin)}. {_percentiles(family.counts)}"


def _counts(histogram: HistogramModel) -> None:
    rows = [
        {"Family": names.family_name(name), "Size": size, "Steps": round(steps)}
        for name, family in histogram.families.items()
        for size, steps in sorted(family.counts.items())
    ]
    table(rows, "histogram", alt="Steps per size")


def _percentiles(counts: dict[int, float]) -> str:
    """`Half of the steps have at most 40 …` of a histogram."""
    total, passed, found = sum(counts.values()), 0.0, []
    wanted = list(_PERCENTILES)
    for size, steps in sorted(counts.items()):
        passed += steps
        while wanted and passed >= wanted[0] * total * (1 - 1e-12):
            found.append(size)
            wanted.pop(0)
    if len(found) < len(_PERCENTILES):
        return ""
    return f"Median {found[0]:,}, 90th percentile {found[1]:,}, 99th {found[2]:,}, largest {found[3]:,}."


page()
