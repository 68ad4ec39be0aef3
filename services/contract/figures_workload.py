"""Figures of a workload over time: arrivals, lengths, sizes by time. Pure functions from contract models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from services.contract.figures import LINE, LOG, dressed, new_figure
from services.contract.shape import BinnedModel, HeatMapModel

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MINUTE_S, HOUR_S = 60.0, 3600.0


def time_unit(span_s: float) -> tuple[float, str]:
    """(seconds, name) of the unit that a time axis of this span reads best in."""
    if span_s >= 3 * HOUR_S:
        return HOUR_S, "hours"
    return (MINUTE_S, "minutes") if span_s >= 3 * MINUTE_S else (1.0, "seconds")


def arrivals_figure(arrivals: BinnedModel) -> Figure:
    """Requests per second over the recording."""
    unit_s, unit = time_unit(arrivals.edges[-1])
    width_s = arrivals.edges[1] - arrivals.edges[0]
    figure = new_figure()
    figure.add_scatter(
        x=[edge / unit_s for edge in arrivals.edges[:-1]],
        y=[count / width_s for count in arrivals.counts],
        mode="lines",
        line={"shape": "hv", "color": LINE},
        fill="tozeroy",
        hovertemplate="%{y:.2f} requests/s at %{x:.1f} " + unit + "<extra></extra>",
    )
    figure.update_xaxes(title=f"{unit} since the first request")
    figure.update_yaxes(title="requests per second", rangemode="tozero")
    return dressed(figure, "")


def lengths_figure(prompt: BinnedModel, output: BinnedModel) -> Figure:
    """Requests per token count of prompt and output, on one logarithmic axis."""
    figure = new_figure()
    for binned, name, colour, dash in ((prompt, "prompt", LINE, "solid"), (output, "output", "#D55E00", "dash")):
        total = sum(binned.counts) or 1.0
        figure.add_scatter(
            x=binned.edges[:-1],
            y=[count / total for count in binned.counts],
            mode="lines",
            name=f"{name} (median {binned.quantiles[0]:,.0f})",
            line={"shape": "hv", "color": colour, "dash": dash},
            hovertemplate="from %{x:,} tokens: %{y:.1%}<extra>" + name + "</extra>",
        )
    figure.update_xaxes(title="tokens", **LOG)
    figure.update_yaxes(title="share of requests", tickformat=".2~%", rangemode="tozero")
    return dressed(figure, "")


def heat_map_figure(heat: HeatMapModel, unit: str) -> Figure:
    """Steps by time of the recording and size, brighter is more."""
    unit_s, name = time_unit(heat.time_edges_s[-1] - heat.time_edges_s[0])
    figure = new_figure()
    figure.add_heatmap(
        x=[(left + right) / 2 / unit_s for left, right in zip(heat.time_edges_s, heat.time_edges_s[1:], strict=False)],
        y=[(low + high - 1) / 2 for low, high in zip(heat.size_edges, heat.size_edges[1:], strict=False)],
        z=[[row[s] or None for row in heat.steps] for s in range(len(heat.size_edges) - 1)],
        colorscale="Cividis",
        colorbar={"title": {"text": "steps"}, "thickness": 12},
        hovertemplate="%{x:.1f} " + name + ", size about %{y:.0f}: %{z:,.0f} steps<extra></extra>",
    )
    figure.update_xaxes(title=f"{name} since the first step")
    figure.update_yaxes(title=f"step size ({unit})", rangemode="tozero")
    return dressed(figure, "")
