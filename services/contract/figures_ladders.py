"""Lists side by side: the mean step of each against the band in which a difference is noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.contract.figures import CHOSEN, DEFAULT, INVERSION, LINE, dressed, new_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True, slots=True)
class Rung:
    """One list: `held_out_ms` is its mean step on traffic that it was not fitted to, where that is known."""

    label: str
    mean_step_ms: float
    list_length: int
    held_out_ms: float | None = None
    role: str = "other"  # other, tuned or default


FAR = 1.10
"""A mean step above this many times the default's is drawn at the edge."""

LOOKS: Mapping[str, tuple[str, str]] = {
    "other": (LINE, "circle"),
    "tuned": (CHOSEN, "star"),
    "default": (DEFAULT, "x"),
}


def ladder_figure(rungs: Sequence[Rung], noise_share: float | None = None) -> Figure:
    """Fastest on top; the band around the default's step is where a difference counts as noise.

    A list far slower than the default stands at the edge, with its figure, so that the others can be told apart.

    Args:
        noise_share: half of the band, as a share of the default's mean step.
    """
    figure = new_figure()
    ranked = sorted(rungs, key=lambda rung: -rung.mean_step_ms)
    base = next((rung.mean_step_ms for rung in rungs if rung.role == "default"), None)
    if base is not None and noise_share is not None:
        figure.add_vrect(
            x0=base * (1 - noise_share), x1=base * (1 + noise_share), fillcolor=DEFAULT, opacity=0.18, line_width=0
        )
    edge = float("inf") if base is None else base * FAR
    for role, (colour, symbol) in LOOKS.items():
        own = [rung for rung in ranked if rung.role == role and rung.mean_step_ms <= edge]
        if own:
            figure.add_scatter(
                x=[rung.mean_step_ms for rung in own],
                y=[rung.label for rung in own],
                mode="markers",
                name={"other": "list", "tuned": "tuned", "default": "engine default"}[role],
                marker={"color": colour, "symbol": symbol, "size": 12},
                customdata=[rung.list_length for rung in own],
                hovertemplate="%{y}, %{customdata} sizes: %{x:.3f} ms<extra></extra>",
            )
    far = [rung for rung in ranked if rung.mean_step_ms > edge]
    if far:
        figure.add_scatter(
            x=[edge for _ in far],
            y=[rung.label for rung in far],
            mode="markers+text",
            name="beyond the edge",
            text=[f"{rung.mean_step_ms:.1f} ms" for rung in far],
            textposition="middle left",
            marker={"color": INVERSION, "symbol": "triangle-right", "size": 12},
            hovertemplate="%{y}: %{text}<extra></extra>",
        )
    kept_out = [rung for rung in ranked if rung.held_out_ms is not None]
    if kept_out:
        figure.add_scatter(
            x=[rung.held_out_ms for rung in kept_out],
            y=[rung.label for rung in kept_out],
            mode="markers",
            name="on traffic kept out",
            marker={"color": "#009E73", "symbol": "diamond-open", "size": 12, "line": {"width": 2}},
            hovertemplate="%{y}, kept-out traffic: %{x:.3f} ms<extra></extra>",
        )
    figure.update_xaxes(title="mean step (ms)")
    figure.update_yaxes(
        automargin=True, type="category", categoryorder="array", categoryarray=[rung.label for rung in ranked]
    )
    return dressed(figure, "")
