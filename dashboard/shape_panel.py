"""A workload over time: arrivals, lengths, sizes by time, drift, and every engine's ceiling."""

from __future__ import annotations

import streamlit as st

from dashboard import names, text
from dashboard.charts import show
from dashboard.tables import table
from services.contract.figures_workload import arrivals_figure, heat_map_figure, lengths_figure
from services.contract.histogram import HistogramModel
from services.contract.shape import DriftModel, ShapeModel

DRIFTED = 0.1
"""Windows whose size histograms differ in more than this share of steps are called different."""


def shape_panel(shape: ShapeModel, histogram: HistogramModel) -> None:
    """Everything that the source can tell about time."""
    if shape.heat_map is not None:
        st.subheader("Sizes over time")
        family = histogram.families.get(shape.family)
        unit = family.unit if family else "requests"
        show(heat_map_figure(shape.heat_map, unit), "heat-map", "Steps by time of the recording and step size")
        if shape.drift is not None:
            st.write(drift_sentence(shape.drift))
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


def drift_sentence(drift: DriftModel) -> str:
    """What changed between the two halves of a recording, in words."""
    first, second = drift.mean_size
    moved = (
        f"{text.share(drift.distance)} of the steps would have to change their size to make both halves alike "
        f"(mean size {text.digits(first)} then {text.digits(second)}, 99th percentile "
        f"{text.count(drift.p99_size[0])} then {text.count(drift.p99_size[1])})"
    )
    if drift.distance > DRIFTED:
        return f"**The traffic drifts:** {moved}. A list fitted to one half may not fit the other."
    return f"**The traffic holds still:** {moved}."
