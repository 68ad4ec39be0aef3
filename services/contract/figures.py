"""Figures that report and dashboard share: pure functions from contract models to plotly figures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from services.contract.scorecard import FrontPointModel, ScorecardModel
from tuner.cost_profile import FamilyCost
from workloads.errors import MissingExtra

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Outcome = Literal["exact", "padded", "fallback"]
COLOURS: Mapping[Outcome, str] = {"exact": "#0072B2", "padded": "#F0B44C", "fallback": "#A3195B"}
"""Told apart by people who cannot tell red from green: the three differ in lightness as well."""

LINE, DEFAULT, CHOSEN, INVERSION = "#4575b4", "#7f7f7f", "#D55E00", "#A3195B"


def outcome_of(size: int, sizes: Sequence[int]) -> Outcome:
    """What a step of `size` gets from the increasing list `sizes`."""
    at = bisect_left(sizes, size)
    if at == len(sizes):
        return "fallback"
    return "exact" if sizes[at] == size else "padded"


PATTERNS: Mapping[Outcome, str] = {"exact": "", "padded": "/", "fallback": "x"}
"""The second cue beside the colour; seen in the legend and on wide bars."""

MOST_BARS = 600


def bars_of(counts: Mapping[int, float], sizes: Sequence[int], outcome: Outcome) -> tuple[list[float], list[float]]:
    """(centres, counts) of the bars of one outcome; of very many sizes, neighbours share a bar."""
    chosen = sorted(size for size in counts if outcome_of(size, sizes) == outcome)
    width = bar_width(counts)
    if width == 1:
        return [float(size) for size in chosen], [counts[size] for size in chosen]
    bars: dict[int, float] = {}
    for size in chosen:
        bars[(size - 1) // width] = bars.get((size - 1) // width, 0.0) + counts[size]
    return [at * width + (width + 1) / 2 for at in bars], list(bars.values())


def bar_width(counts: Mapping[int, float]) -> int:
    """Sizes that share a bar: 1 up to `MOST_BARS` sizes."""
    return max(1, -(-max(counts, default=1) // MOST_BARS)) if len(counts) > MOST_BARS else 1


def histogram_figure(
    counts: Mapping[int, float],
    sizes: Sequence[int],
    *,
    unit: str = "requests",
    title: str = "",
    of: str = "steps",
    log: bool = False,
) -> Figure:
    """Share of steps per size, coloured by what the list makes of it; a tick mark under every captured size.

    Args:
        of: what the counts count, `steps` or `time`.
        log: shares on a logarithmic axis.
    """
    total = sum(counts.values()) or 1.0
    figure = new_figure()
    for outcome, colour in COLOURS.items():
        centres, heights = bars_of(counts, sizes, outcome)
        figure.add_bar(
            x=centres,
            y=[height / total for height in heights],
            width=float(bar_width(counts)),  # else plotly widens the bars of an outcome whose sizes are far apart
            name=f"{outcome} ({sum(heights) / total:.1%})",
            marker={"color": colour, "line": {"width": 0}, "pattern": {"shape": PATTERNS[outcome], "size": 4}},
            hovertemplate="size %{x}: %{y:.2%} of " + of + "<extra>" + outcome + "</extra>",
        )
    lowest = min((count for count in counts.values() if count > 0), default=1.0) / total
    figure.add_scatter(
        x=list(sizes),
        y=[lowest if log else 0.0] * len(sizes),
        mode="markers",
        name=f"captured ({len(sizes)})",
        marker={"symbol": "line-ns-open", "size": 12, "color": "#3B8FD4", "line": {"width": 1.5}},
        hovertemplate="captured %{x}<extra></extra>",
    )
    figure.update_yaxes(title=f"share of {of}", tickformat=".2~%", rangemode="tozero", **(LOG if log else {}))
    figure.update_xaxes(title=f"step size ({unit})")
    return dressed(figure, title, barmode="overlay", bargap=0.0)


def front_figure(
    front: Sequence[FrontPointModel], default: ScorecardModel, chosen: ScorecardModel | None = None, *, title: str = ""
) -> Figure:
    """Mean step time of the best list of every length; the engine's default and the chosen list as points."""
    figure = new_figure()
    figure.add_scatter(
        x=[point.list_length for point in front],
        y=[point.mean_step_ms for point in front],
        mode="lines+markers",
        name="best list of each length",
        line={"color": LINE, "shape": "hv"},
        customdata=[_short(point.sizes) for point in front],
        hovertemplate="%{x} sizes: %{y:.3f} ms<br>%{customdata}<extra></extra>",
    )
    for card, name, colour, symbol in (
        (default, "engine default", DEFAULT, "x"),
        (chosen, "chosen", CHOSEN, "star"),
    ):
        if card is not None and card.mean_step_ms is not None:
            figure.add_scatter(
                x=[card.list_length],
                y=[card.mean_step_ms],
                mode="markers",
                name=name,
                marker={"color": colour, "symbol": symbol, "size": 13},
                hovertemplate=name + ", %{x} sizes: %{y:.3f} ms<extra></extra>",
            )
    figure.update_xaxes(title="sizes in the list", rangemode="tozero")
    figure.update_yaxes(title="mean step time (ms)")
    return dressed(figure, title)


def front_choice_figure(
    front: Sequence[FrontPointModel], default: ScorecardModel, chosen: ScorecardModel, picked: FrontPointModel
) -> Figure:
    """`front_figure` with the length that a slider picked."""
    figure = front_figure(front, default, chosen)
    figure.add_scatter(
        x=[picked.list_length],
        y=[picked.mean_step_ms],
        mode="markers",
        name="picked",
        marker={"color": "#009E73", "symbol": "circle-open", "size": 16, "line": {"width": 3}},
        hovertemplate="picked, %{x} sizes: %{y:.3f} ms<extra></extra>",
    )
    return figure


def staircase_figure(cost: FamilyCost, *, title: str = "") -> Figure:
    """Measured time of every captured size; a size whose next larger one is faster (an inversion) is marked."""
    sizes = [int(size) for size in cost.sizes]
    times = [float(ms) for ms in cost.bucket_ms()]
    return staircase(sizes, times, unit=cost.unit, title=title)


def staircase(sizes: Sequence[int], times_ms: Sequence[float], *, unit: str = "requests", title: str = "") -> Figure:
    """See `staircase_figure`; for callers that hold the points of a profile document."""
    figure = new_figure()
    # A step of any size up to a bucket costs the bucket's time, hence "vh": the riser stands at the smaller size.
    figure.add_scatter(
        x=list(sizes),
        y=list(times_ms),
        mode="lines+markers",
        name="captured step",
        line={"color": LINE, "shape": "vh"},
        marker={"size": 5},
        hovertemplate="size %{x}: %{y:.3f} ms<extra></extra>",
    )
    worse = [i for i in range(len(sizes) - 1) if times_ms[i + 1] < times_ms[i]]
    figure.add_scatter(
        x=[sizes[i] for i in worse],
        y=[times_ms[i] for i in worse],
        mode="markers",
        name=f"inversions ({len(worse)}): the next size is faster",
        marker={"color": INVERSION, "symbol": "triangle-down", "size": 10},
        hovertemplate="size %{x}: %{y:.3f} ms<extra>inversion</extra>",
    )
    figure.update_xaxes(title=f"captured size ({unit})", rangemode="tozero")
    figure.update_yaxes(title="step time (ms)", rangemode="tozero")
    return dressed(figure, title)


def plotly() -> Any:
    try:
        import plotly.graph_objects as go
    except ModuleNotFoundError:
        raise MissingExtra.of("dashboard", "drawing figures") from None
    return go


_AXIS = {"automargin": True, "gridcolor": "#EBF0F8", "linecolor": "#EBF0F8", "zerolinecolor": "#EBF0F8", "ticks": ""}
_TEMPLATE = {"layout": {"xaxis": _AXIS, "yaxis": _AXIS, "font": {"color": "#2A3F5F"}, "hovermode": "closest"}}
"""What we need of `plotly_white`. Plotly's own templates style every trace type there is: 7 kB and several milliseconds
a figure."""


def new_figure() -> Figure:
    """An empty figure in our template."""
    figure: Figure = plotly().Figure(layout={"template": _TEMPLATE})
    return figure


LOG: Mapping[str, Any] = {"type": "log", "dtick": 1}
"""A logarithmic axis with a label at every power of ten; Plotly would put bare 2s and 5s between them."""


def dressed(figure: Figure, title: str, **layout: Any) -> Figure:
    figure.update_layout(
        title=title or None,
        margin={"l": 60, "r": 20, "t": 50 if title else 20, "b": 50},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "xanchor": "left", "x": 0.0},
        **layout,
    )
    return figure


def _short(sizes: Sequence[int]) -> str:
    text = ", ".join(str(size) for size in sizes)
    return text if len(text) <= 120 else f"{text[:117]}..."
