"""Figures of a service at rising load, one line a list; where a list tips over is marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from services.contract.figures import DEFAULT, LOG, dressed, new_figure
from services.contract.figures_profile import DASHES, SERIES
from services.contract.load import LoadCurvesModel

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

AXES: Mapping[str, str] = {
    "mean_running": "requests running on average",
    "throughput_tokens_per_s": "throughput (tokens/s)",
    "ttft_p50_s": "median time to first token (s)",
    "ttft_p99_s": "99th percentile time to first token (s)",
    "tpot_mean_ms": "time per output token (ms)",
    "queue_wait_p99_s": "99th percentile wait to start (s)",
    "utilisation": "busy share",
    "goodput_requests_per_s": "goodput (requests/s)",
    "slo_share": "share of requests within the promise",
}
MARKS = ("circle", "diamond", "square", "triangle-up", "cross")


def load_figure(found: LoadCurvesModel, axis: str, promise: float | None = None) -> Figure:
    """One figure of the report by offered load.

    Args:
        promise: what users were promised at most, in the axis's own unit; a line across.
    """
    figure = new_figure()
    for i, (label, curve) in enumerate(found.curves.items()):
        colour = SERIES[i % len(SERIES)]
        values = [getattr(report, axis) for report in curve.reports]
        figure.add_scatter(
            x=found.loads,
            y=values,
            mode="lines+markers",
            name=label,
            line={"color": colour, "dash": DASHES[i % len(DASHES)]},
            marker={"symbol": MARKS[i % len(MARKS)], "size": 7},
            hovertemplate="load %{x:.2f}: %{y:.3g}<extra>" + label + "</extra>",
        )
        if curve.tipping_load is not None:
            figure.add_vline(x=curve.tipping_load, line={"color": colour, "width": 1, "dash": DASHES[i % len(DASHES)]})
    if promise is not None:
        figure.add_scatter(
            x=[0.0, max(found.loads)],
            y=[promise, promise],
            mode="lines",
            name="promised",
            line={"color": DEFAULT, "width": 2, "dash": "dot"},
            hovertemplate="promised: %{y:.3g}<extra></extra>",
        )
    figure.update_xaxes(title="offered load (1 = as recorded)", rangemode="tozero")
    log = axis.startswith(("ttft", "queue"))
    figure.update_yaxes(title=f"{AXES[axis]}, log" if log else AXES[axis], **(LOG if log else {}))
    if not log:
        figure.update_yaxes(rangemode="tozero")
    return dressed(figure, "")
