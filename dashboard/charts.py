"""Shared figures, placed on a page: one height, no title, the theme of the page, downloads as PNG and HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from services.contract.figures import front_figure, histogram_figure
from services.contract.recommendation import RecommendationModel
from services.contract.trace import FamilyHistogramModel

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

HEIGHT_PX = 340


def histogram_chart(
    family: str,
    histogram: FamilyHistogramModel,
    lists: Mapping[str, tuple[int, ...]],
    *,
    log: bool = False,
    step_ms: Mapping[int, float] | None = None,
) -> None:
    """Steps per size of one family, coloured by what the list of that family makes of them.

    Args:
        step_ms: weighs every step by its time; None counts steps.
    """
    counts = histogram.counts
    if step_ms:
        counts = {size: steps * step_ms.get(size, 0.0) for size, steps in counts.items()}
    of = "time" if step_ms else "steps"
    figure = histogram_figure(counts, list_for(family, lists), unit=histogram.unit, log=log, of=of)
    show(figure, f"histogram-{family}", f"Share of {of} per size for {family}, by exact hit, padded hit and eager")


def result_histogram_chart(
    family: str, counts: Mapping[int, float], sizes: tuple[int, ...], key: str, *, unit: str
) -> None:
    figure = histogram_figure(counts, sizes, unit=unit)
    show(figure, key, f"Share of steps per size for {family} and the captured sizes")


def front_chart(result: RecommendationModel) -> None:
    """Best step time for every list length, with the engine's default and the chosen list."""
    figure = front_figure(result.front, result.default.scorecard, result.scorecard)
    show(figure, "front", "Mean step time of the best list of every length, the default and the chosen list as points")


def list_for(family: str, lists: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The list that a family's steps use: the one named in the family's name, else the first."""
    for name, sizes in lists.items():
        if family.startswith(name):
            return sizes
    return next(iter(lists.values()), ())


def unit_of(engine: str, family: str) -> str:
    """What the sizes of a family count: vLLM's lists and every prefill graph count tokens, all others requests."""
    decode = family.startswith(("decode", "target_verify", "draft"))
    return "requests" if decode and not engine.startswith("vllm@") else "tokens"


def show(figure: Figure, key: str, description: str, *, height_px: int = HEIGHT_PX) -> None:
    """Place a figure. The camera of its tool bar saves a PNG; the button below saves a page of its own."""
    figure.update_layout(height=height_px)
    config = {
        "displaylogo": False,
        "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
        "toImageButtonOptions": {"format": "png", "filename": f"captune-{key}", "scale": 2},
    }
    st.plotly_chart(figure, key=key, alt=description, config=config)
    st.download_button(
        "Plot as HTML",
        lambda: figure.to_html(include_plotlyjs=True, config=config).encode(),
        file_name=f"captune-{key}.html",
        mime="text/html",
        key=f"html-{key}",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        help=f"{description}. The camera above the plot saves it as PNG.",
    )
