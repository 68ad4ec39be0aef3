"""Figures of a sweep's own trials: history, importance, parallel coordinates, timeline, Pareto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from services.contract.figures import CHOSEN, DEFAULT, LINE, dressed, new_figure
from services.contract.figures_profile import DASHES, SERIES
from services.contract.scorecard import FrontPointModel, ScorecardModel
from services.contract.trial import TrialModel

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

AXES: Mapping[str, str] = {
    "mean_step_ms": "mean step (ms)",
    "tpot_ms": "time per token (ms)",
    "p99_step_ms": "99th percentile step (ms)",
    "worst_regret": "worst regret",
    "list_length": "sizes",
    "capture_s": "capture time (s)",
    "memory_mib": "graph memory (MiB)",
}
PARAMS: Mapping[str, str] = {
    "list_length": "list length",
    "token_weight": "weight per token",
    "price_ms": "price per graph (ms)",
}
SYMBOLS = {"complete": "circle", "infeasible": "x-thin-open", "failed": "triangle-down"}
STATE_COLOURS = {"complete": LINE, "infeasible": DEFAULT, "failed": "#A3195B"}


def value_of(card: ScorecardModel | FrontPointModel | None, axis: str) -> float | None:
    """A figure of `AXES`; None where it is unknown."""
    value = None if card is None else getattr(card, axis, None)
    return None if value is None else float(value)


def history_figure(trials: Sequence[TrialModel], axis: str, bound: float | None = None) -> Figure:
    """The objective of every trial, the best so far as a line, and the exact bound that none can beat."""
    figure = new_figure()
    for state in SYMBOLS:
        own = [(t.number, value_of(t.scorecard, axis)) for t in trials if t.state == state]
        shown = [(number, value) for number, value in own if value is not None]
        if shown:
            figure.add_scatter(
                x=[number for number, _ in shown],
                y=[value for _, value in shown],
                mode="markers",
                name=state,
                marker={"color": STATE_COLOURS[state], "symbol": SYMBOLS[state], "size": 8},
                hovertemplate="trial %{x}: %{y:.3f}<extra>" + state + "</extra>",
            )
    numbers, line = _best_so_far(trials, axis)
    figure.add_scatter(x=numbers, y=line, mode="lines", name="best so far", line={"color": CHOSEN, "shape": "hv"})
    if bound is not None:
        figure.add_scatter(
            x=[0, max((trial.number for trial in trials), default=1)],
            y=[bound, bound],
            mode="lines",
            name="exact bound on the default's steps",
            line={"color": "#009E73", "dash": "dash"},
            hovertemplate="no list of any length is below %{y:.3f}<extra></extra>",
        )
    last = max((trial.number for trial in trials), default=1)
    figure.update_xaxes(title="trial", range=[-0.03 * last - 0.5, 1.03 * last + 0.5])
    figure.update_yaxes(title=AXES.get(axis, axis))
    return dressed(figure, "")


def best_so_far_figure(sweeps: Mapping[str, Sequence[TrialModel]], axis: str) -> Figure:
    """The best objective so far by trial, one line a sweep."""
    figure = new_figure()
    for i, (label, trials) in enumerate(sweeps.items()):
        numbers, line = _best_so_far(trials, axis)
        figure.add_scatter(
            x=numbers,
            y=line,
            mode="lines",
            name=label,
            line={"color": SERIES[i % len(SERIES)], "dash": DASHES[i % len(DASHES)], "shape": "hv"},
            hovertemplate="trial %{x}: %{y:.3f}<extra>" + label + "</extra>",
        )
    figure.update_xaxes(title="trial", rangemode="tozero")
    figure.update_yaxes(title=f"best {AXES[axis]}")
    return dressed(figure, "")


def _best_so_far(trials: Sequence[TrialModel], axis: str) -> tuple[list[int], list[float]]:
    """(trial numbers, least value up to each) from the first feasible trial on."""
    best, numbers, line = float("inf"), [], []
    for trial in trials:
        value = value_of(trial.scorecard, axis) if trial.state == "complete" else None
        best = best if value is None else min(best, value)
        if best < float("inf"):
            numbers.append(trial.number)
            line.append(best)
    return numbers, line


def importance_figure(shares: Mapping[str, float]) -> Figure:
    """Share of every parameter in what moved the objective."""
    ranked = sorted(shares.items(), key=lambda item: item[1])
    figure = new_figure()
    figure.add_bar(
        x=[share for _, share in ranked],
        y=[PARAMS.get(name, name) for name, _ in ranked],
        orientation="h",
        marker={"color": LINE},
        text=[f"{share:.0%}" for _, share in ranked],
        textposition="auto",
        hovertemplate="%{y}: %{x:.1%}<extra></extra>",
    )
    figure.update_xaxes(title="share of importance", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(automargin=True)
    return dressed(figure, "")


def parallel_figure(trials: Sequence[TrialModel], axis: str) -> Figure:
    """Parameters and figures of the sampled trials; the colour is the objective."""
    shown = [t for t in trials if t.params and value_of(t.scorecard, axis) is not None]
    names = [name for name in PARAMS if shown and all(name in t.params for t in shown)]
    values = [value_of(t.scorecard, axis) for t in shown]
    dimensions = [{"label": PARAMS[name], "values": [float(t.params[name]) for t in shown]} for name in names]
    for figure_axis in dict.fromkeys((axis, "worst_regret", "capture_s")):
        column = [value_of(t.scorecard, figure_axis) for t in shown]
        if all(value is not None for value in column):
            dimensions.append({"label": AXES[figure_axis], "values": column})
    figure = new_figure()
    figure.add_parcoords(
        line={"color": values, "colorscale": "Cividis", "showscale": True, "colorbar": {"thickness": 12}},
        dimensions=dimensions,
        labelangle=0,
    )
    figure = dressed(figure, "")
    figure.update_layout(margin={"l": 80, "r": 40, "t": 60, "b": 30})
    return figure


def timeline_figure(trials: Sequence[TrialModel]) -> Figure:
    """When every trial was recorded, seconds after the first one."""
    timed = [trial for trial in trials if trial.recorded_at is not None]
    start = min((t.recorded_at for t in timed if t.recorded_at), default=None)
    figure = new_figure()
    for state in SYMBOLS:
        own = [t for t in timed if t.state == state]
        if own and start is not None:
            figure.add_scatter(
                x=[(t.recorded_at - start).total_seconds() for t in own if t.recorded_at],
                y=[t.number for t in own],
                mode="markers",
                name=state,
                marker={"color": STATE_COLOURS[state], "symbol": SYMBOLS[state], "size": 8},
                hovertemplate="trial %{y} after %{x:.1f} s<extra>" + state + "</extra>",
            )
    figure.update_xaxes(title="seconds after the first trial", rangemode="tozero")
    figure.update_yaxes(title="trial", rangemode="tozero")
    return dressed(figure, "")


def dominated(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether another point is at most as large in both and smaller in one."""
    order = sorted(range(len(points)), key=lambda i: points[i])
    worse, least = [False] * len(points), float("inf")
    last: tuple[float, float] | None = None
    for i in order:
        worse[i] = points[i][1] >= least and points[i] != last
        if points[i][1] < least:
            least, last = points[i][1], points[i]
    return worse


def pareto_figure(groups: Mapping[str, Sequence[tuple[float, float, str]]], x: str, y: str) -> Figure:
    """Points (x, y, words) by group; groups differ in colour and shape."""
    looks = {
        "exact front": (LINE, "circle"),
        "trials": ("#56B4E9", "diamond"),
        "infeasible": (DEFAULT, "x-thin-open"),
        "dominated": ("#CC79A7", "circle-open"),
        "engine default": ("#7f7f7f", "x"),
        "chosen": (CHOSEN, "star"),
    }
    figure = new_figure()
    for name, points in groups.items():
        if points:
            colour, symbol = looks.get(name, (LINE, "circle"))
            figure.add_scatter(
                x=[point[0] for point in points],
                y=[point[1] for point in points],
                mode="markers",
                name=name,
                marker={"color": colour, "symbol": symbol, "size": 13 if len(points) == 1 else 8},
                customdata=[point[2] for point in points],
                hovertemplate="%{customdata}<br>%{x:.4g} / %{y:.4g}<extra>" + name + "</extra>",
            )
    figure.update_xaxes(title=AXES[x], tickformat=".0%" if x == "worst_regret" else None)
    figure.update_yaxes(title=AXES[y], tickformat=".0%" if y == "worst_regret" else None)
    return dressed(figure, "")
