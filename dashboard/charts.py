"""Shared figures, placed on a page: one height, no title, the theme of the page, the tool bar's PNG button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from services.contract.figures import front_figure, histogram_figure
from services.contract.recommendation import RecommendationModel
from services.contract.trace import FamilyHistogramModel

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_HEIGHT_PX = 340


def histogram_chart(family: str, histogram: FamilyHistogramModel, lists: Mapping[str, tuple[int, ...]]) -> None:
    """Steps per size of one family, coloured by what the list of that family makes of them."""
    figure = histogram_figure(histogram.counts, list_for(family, lists), unit=histogram.unit)
    _show(figure, f"histogram-{family}", f"Share of steps per size for {family}, by exact hit, padded hit and eager")


def result_histogram_chart(family: str, counts: Mapping[int, float], sizes: tuple[int, ...], key: str) -> None:
    figure = histogram_figure(counts, sizes)
    _show(figure, key, f"Share of steps per size for {family} and the captured sizes")


def front_chart(result: RecommendationModel) -> None:
    """Best step time for every list length, with the engine's default and the chosen list."""
    figure = front_figure(result.front, result.default.scorecard, result.scorecard)
    _show(figure, "front", "Mean step time of the best list of every length, the default and the chosen list as points")


def list_for(family: str, lists: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The list that a family's steps use: the one named in the family's name, else the first."""
    for name, sizes in lists.items():
        if family.startswith(name):
            return sizes
    return next(iter(lists.values()), ())


def _show(figure: Figure, key: str, description: str) -> None:
    figure.update_layout(height=_HEIGHT_PX)
    st.plotly_chart(figure, key=key, alt=description, config={"displaylogo": False})
