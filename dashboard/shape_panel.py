"""A workload over time: arrivals, lengths, sizes by time, drift, and every engine's ceiling."""

from __future__ import annotations

import json

import streamlit as st

from dashboard import names, text
from dashboard.charts import show
from dashboard.state import api, readable_errors, window
from dashboard.tables import table
from services.contract.figures_workload import arrivals_figure, heat_map_figure, lengths_figure
from services.contract.histogram import HistogramModel
from services.contract.shape import DriftModel, ShapeModel

DRIFTED = 0.1
"""Windows whose size histograms differ in more than this share of steps are called different."""

_FIRST, _SECOND = (0, 50), (50, 100)


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def shape_of(trace_id: str, query: str) -> ShapeModel:
    """The answer to a URL query as JSON; kept for a while, so that a click on the page does not simulate again."""
    return api().shape(trace_id, json.loads(query))


def shape_panel(trace_id: str, query: str, histogram: HistogramModel) -> None:
    """Everything that the source can tell about time.

    Args:
        query: what the workload depends on, as JSON.
    """
    shape = shape_of(trace_id, query)
    if shape.heat_map is not None:
        st.subheader("Sizes over time")
        family = histogram.families.get(shape.family)
        unit = family.unit if family else "requests"
        show(heat_map_figure(shape.heat_map, unit), "heat-map", "Steps by time of the recording and step size")
        _drift(trace_id, query)
    if shape.arrivals is not None and shape.input_tokens is not None and shape.output_tokens is not None:
        left, right = st.columns(2)
        with left:
            st.subheader("Arrivals")
            show(arrivals_figure(shape.arrivals), "arrivals", "Requests per second over the recording")
        with right:
            st.subheader("Lengths")
            show(
                lengths_figure(shape.input_tokens, shape.output_tokens),
                "lengths",
                "Share of requests by tokens of prompt and output",
            )
    if shape.ceilings:
        st.subheader("Every engine's default ceiling")
        rows = [
            {"Engine": names.engine_name(spec), "Largest default size": top, "Decode steps above": text.share(above)}
            for spec, (top, above) in shape.ceilings.items()
        ]
        table(rows, "ceilings", alt="Default ceilings")


@st.fragment
def _drift(trace_id: str, query: str) -> None:
    """Two windows of the recording against each other; moving one runs this part of the page alone."""
    left, right = st.columns(2)
    help = "In per cent of the recorded time."
    first = window(left, "First window", "first", _FIRST, help=help)
    second = window(right, "Second window", "second", _SECOND, help=help)
    if first[0] == first[1] or second[0] == second[1]:
        st.info("A window needs some length: move one of its ends.", icon=":material/straighten:")
        return
    windows = {
        "first_from": first[0] / 100,
        "first_to": first[1] / 100,
        "second_from": second[0] / 100,
        "second_to": second[1] / 100,
    }
    halves = (first, second) == (_FIRST, _SECOND)
    with readable_errors():
        drift = shape_of(trace_id, query if halves else json.dumps(json.loads(query) | windows)).drift
        if drift is None:
            st.info("One of these windows has no step: move its ends apart.", icon=":material/straighten:")
        else:
            st.write(drift_sentence(drift))


def drift_sentence(drift: DriftModel) -> str:
    """What changed between two windows of a recording, in words."""
    first, second = drift.mean_size
    moved = (
        f"{text.share(drift.distance)} of the steps would have to change their size to make {_window(drift, 0)} and "
        f"{_window(drift, 1)} of the recording alike "
        f"(mean size {text.digits(first)} then {text.digits(second)}, 99th percentile "
        f"{text.count(drift.p99_size[0])} then {text.count(drift.p99_size[1])})"
    )
    if drift.distance > DRIFTED:
        return f"**The traffic drifts:** {moved}. A list fitted to one window may not fit the other."
    return f"**The traffic holds still:** {moved}."


def _window(drift: DriftModel, at: int) -> str:
    begin_s, end_s = drift.windows_s[at]
    begin = text.duration(begin_s) if begin_s else "the beginning"
    end = "the end" if end_s >= drift.span_s else text.duration(end_s)
    return f"{begin} to {end}"
