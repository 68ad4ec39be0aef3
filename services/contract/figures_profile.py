"""Figures of cost profiles: the measured staircase with its spread, what capturing costs, profiles side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median
from typing import TYPE_CHECKING, Any

from services.contract.figures import CHOSEN, DEFAULT, INVERSION, LINE, LOG, dressed, new_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
LAUNCH_BOUND_SHARE = 0.10
"""A step without a graph that takes at most this much longer than small ones waits for launches, not for work."""
SMALL_SIZES, NEIGHBOURS = 8, 5
"""Such times are noisy, so medians are compared: of the smallest sizes, and of a size with its neighbours."""

UNEVEN = 20.0

Point = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one family of one profile document, sizes increasing.

    Attributes:
        busy: sizes with the profiler's word on whether a step without a graph waits for launches; empty where the
            profile has none.
    """

    label: str
    unit: str
    points: tuple[Point, ...]
    busy: tuple[Point, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any], family: str, label: str) -> Curve:
        own = document["families"][family]
        points = sorted(own["points"], key=lambda point: int(point["size"]))
        busy = ((document.get("software") or {}).get("measurement") or {}).get("gpu_busy", [])
        return cls(label, str(own.get("unit", "requests")), tuple(points), tuple(busy))

    @property
    def sizes(self) -> list[int]:
        return [int(point["size"]) for point in self.points]

    def column(self, name: str) -> list[float | None]:
        """Values of a field, None where a point lacks it."""
        return [None if point.get(name) is None else float(point[name]) for point in self.points]

    @property
    def captured_with_another(self) -> bool:
        """Whether capturing costs nothing here, because another family on the same list counts it for both."""
        return all(value == 0 for name in ("capture_s", "memory_mib") for value in self.column(name))

    @property
    def inversions(self) -> list[int]:
        """Indices of points whose next larger size is faster."""
        times = self.column("step_ms")
        return [i for i in range(len(times) - 1) if (times[i + 1] or 0.0) < (times[i] or 0.0)]

    @property
    def launch_bound_to(self) -> int | None:
        """Largest size up to which a step without a graph waits for launches, as the profiler saw it; else up to which
        it takes about as long as small ones. None without times."""
        if self.busy:
            bound = list(takewhile(lambda seen: seen["launch_bound"], self.busy))
            return int(bound[-1]["size"]) if bound else None
        known = [(int(point["size"]), float(point["fallback_ms"])) for point in self.points if point.get("fallback_ms")]
        if not known:
            return None
        least_ms = median(ms for _, ms in known[:SMALL_SIZES])
        last = None
        for at, (size, _) in enumerate(known):
            around = known[max(0, at - NEIGHBOURS // 2) : at + NEIGHBOURS // 2 + 1]
            if median(ms for _, ms in around) > least_ms * (1 + LAUNCH_BOUND_SHARE):
                break
            last = size
        return last


def curve_figure(curve: Curve, chosen: Sequence[int] = (), doubtful: Collection[int] = ()) -> Figure:
    """Step, replay alone and step without a graph, with the spread of the step; inversions and chosen sizes marked.

    Args:
        doubtful: sizes that read faster than a smaller one by no more than noise; inversions to them are hollow.
    """
    figure = new_figure()
    bound = curve.launch_bound_to
    if bound is not None:
        figure.add_vrect(x0=0, x1=bound, fillcolor="#E69F00", opacity=0.12, line_width=0)
    _add_spread(figure, curve)
    step = curve.column("step_ms")
    for name, label, colour, dash in (
        ("fallback_ms", "without a graph", DEFAULT, "dash"),
        ("replay_ms", "replay alone", "#56B4E9", "dot"),
        ("step_ms", "captured step", LINE, "solid"),
    ):
        values = curve.column(name)
        if any(value is not None for value in values):
            figure.add_scatter(
                x=curve.sizes,
                y=values,
                mode="lines",
                name=label,
                line={"color": colour, "dash": dash, "shape": "linear" if name == "fallback_ms" else "vh"},
                hovertemplate="size %{x}: %{y:.3f} ms<extra>" + label + "</extra>",
            )
    within = [i for i in curve.inversions if curve.sizes[i + 1] in doubtful]
    clear = [i for i in curve.inversions if i not in within]
    _add_marks(figure, curve, clear, f"inversions ({len(clear)})", INVERSION, "triangle-down")
    if within:
        _add_marks(figure, curve, within, f"within noise ({len(within)})", INVERSION, "triangle-down-open")
    kept = [i for i, size in enumerate(curve.sizes) if size in set(chosen)]
    if kept:
        _add_marks(figure, curve, kept, f"captured ({len(chosen)})", CHOSEN, "circle")
    figure.update_xaxes(title=f"captured size ({curve.unit})", rangemode="tozero")
    top = max(value for value in step if value is not None)
    figure.update_yaxes(title="time of a step (ms)", rangemode="tozero", autorangeoptions={"include": [0, top]})
    return dressed(figure, "")


def capture_figure(curve: Curve, column: str, title: str) -> Figure:
    """Marginal price of capturing every size: `capture_s` or `memory_mib`."""
    figure = new_figure()
    figure.add_bar(
        x=[str(size) for size in curve.sizes],
        y=curve.column(column),
        marker={"color": LINE},
        hovertemplate="size %{x}: %{y:.3f}<extra></extra>",
    )
    figure.update_xaxes(title=f"captured size ({curve.unit})", type="category", nticks=5, tickangle=0)
    known = [value for value in curve.column(column) if value]
    if known and max(known) > UNEVEN * median(known):  # one large value would flatten all others
        figure.update_yaxes(title=f"{title}, log", **LOG)
    else:
        figure.update_yaxes(title=title, rangemode="tozero")
    return dressed(figure, "")


COMPARED: Mapping[str, str] = {
    "step_ms": "time of a captured step (ms)",
    "row_ms": "time of a captured step per row (ms)",
    "fallback_ms": "time of a step without a graph (ms)",
    "capture_s": "capture time of a size (s)",
    "memory_mib": "graph memory of a size (MiB)",
}
"""What profiles can be compared on; `row_ms` is `step_ms` divided by the size."""


def compare_curves_figure(curves: Sequence[Curve], axis: str = "step_ms") -> Figure:
    """One of `COMPARED` by captured size, one line a profile."""
    figure = new_figure()
    for i, curve in enumerate(curves):
        values = curve.column("step_ms" if axis == "row_ms" else axis)
        per_row = [None if ms is None else ms / size for ms, size in zip(values, curve.sizes, strict=True)]
        figure.add_scatter(
            x=curve.sizes,
            y=per_row if axis == "row_ms" else values,
            mode="lines",
            name=curve.label,
            line={"color": SERIES[i % len(SERIES)], "dash": DASHES[i % len(DASHES)], "shape": "vh"},
            hovertemplate="size %{x}: %{y:.3g}<extra>" + curve.label + "</extra>",
        )
    figure.update_xaxes(title="captured size", rangemode="tozero")
    if axis == "row_ms":
        figure.update_yaxes(title=f"{COMPARED[axis]}, log", **LOG)
    else:
        figure.update_yaxes(title=COMPARED[axis], rangemode="tozero")
    return dressed(figure, "")


def _add_spread(figure: Figure, curve: Curve) -> None:
    known = [
        (size, float(point["step_ms"]), float(point["spread_ms"]))
        for size, point in zip(curve.sizes, curve.points, strict=True)
        if point.get("spread_ms") is not None
    ]
    if not known:
        return
    for sign, fill in ((1, None), (-1, "tonexty")):
        figure.add_scatter(
            x=[size for size, _, _ in known],
            y=[ms + sign * 2 * spread for _, ms, spread in known],
            mode="lines",
            line={"width": 0, "shape": "vh"},
            fill=fill,
            fillcolor="rgba(69, 117, 180, 0.35)",
            name="± 2 standard deviations between starts",
            showlegend=fill is not None,
            hoverinfo="skip",
        )


def _add_marks(figure: Figure, curve: Curve, at: Sequence[int], name: str, colour: str, symbol: str) -> None:
    times = curve.column("step_ms")
    figure.add_scatter(
        x=[curve.sizes[i] for i in at],
        y=[times[i] for i in at],
        mode="markers",
        name=name,
        marker={"color": colour, "symbol": symbol, "size": 8},
        hovertemplate="size %{x}: %{y:.3f} ms<extra>" + name + "</extra>",
    )
