"""How a workload looks over time: arrivals, lengths, sizes by time of the recording, drift between two windows.

Everything is binned here, so that what is drawn has a bounded number of points, whatever was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.arrays import F64, I64
from workloads.traces.records import RequestTrace, StepTrace

TIME_BINS = 48
SIZE_BINS = 48
LENGTH_BINS = 40
QUANTILES = (0.5, 0.9, 0.99, 1.0)

Window = tuple[float, float]
"""Beginning and end of a part of the recorded time."""

HALVES: tuple[Window, Window] = ((0.0, 0.5), (0.5, 1.0))


@dataclass(frozen=True, slots=True)
class Binned:
    """Counts in B bins.

    Attributes:
        edges: float64 [B + 1], increasing.
        counts: float64 [B].
        quantiles: values at QUANTILES.
    """

    edges: F64
    counts: F64
    quantiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Steps by time and size.

    Attributes:
        time_edges_s: float64 [T + 1], seconds since the first step.
        size_edges: float64 [S + 1]; a bin holds the sizes from its edge up to, not including, the next one.
        steps: float64 [T, S].
    """

    time_edges_s: F64
    size_edges: F64
    steps: F64


@dataclass(frozen=True, slots=True)
class Drift:
    """One window of a recording against another.

    Attributes:
        span_s: from the first step of the recording to the last one.
        windows_s: beginning and end of the two windows, seconds since the first step.
        distance: total variation distance of the two size histograms: the share of steps that would have to change
            their size, 0 to 1.
        steps, mean_size, p99_size: of the two windows.
    """

    span_s: float
    windows_s: tuple[Window, Window]
    distance: float
    steps: tuple[float, float]
    mean_size: tuple[float, float]
    p99_size: tuple[float, float]


def arrivals(trace: RequestTrace) -> Binned:
    """Requests per bin of equal time; quantiles are those of the gaps between arrivals, in seconds."""
    edges = np.linspace(0.0, max(trace.span_s, 1e-9), 2 * TIME_BINS + 1)
    counts, _ = np.histogram(trace.arrival_s, edges)
    gaps = np.diff(trace.arrival_s) if len(trace) > 1 else np.zeros(1)
    return Binned(edges, counts.astype(np.float64), _quantiles(gaps))


def lengths(tokens: I64) -> Binned:
    """Requests per bin of token count, bins growing geometrically."""
    top = int(tokens.max()) + 1
    edges = np.unique(np.floor(np.geomspace(1, top, LENGTH_BINS + 1)))
    edges[-1] = top
    if len(edges) == 1:
        edges = np.array([1.0, 2.0])
    counts, _ = np.histogram(tokens, edges)
    return Binned(edges, counts.astype(np.float64), _quantiles(tokens))


def heat_map(steps: StepTrace, family: str) -> HeatMap | None:
    """Steps of one family by time and size; None where steps carry no time or span none."""
    at, size, weight = _timed(steps, family)
    if len(at) == 0 or float(at.max()) <= float(at.min()):
        return None
    time_edges = np.linspace(float(at.min()), float(at.max()), TIME_BINS + 1)
    width = max(1, -(-int(size.max()) // SIZE_BINS))
    size_edges = np.arange(1, int(size.max()) + width + 1, width, dtype=np.float64)
    counts, _, _ = np.histogram2d(at, size, bins=(time_edges, size_edges), weights=weight)
    return HeatMap(time_edges, size_edges, counts)


def drift(steps: StepTrace, family: str, windows: tuple[Window, Window] = HALVES) -> Drift | None:
    """Compare two windows of the recording, given as shares of its time; they may overlap.

    A window holds the steps from its beginning up to, not including, its end; one that ends at 1 holds the last step.
    None where a window has no step with a time.
    """
    at, size, weight = _timed(steps, family)
    if len(at) == 0:
        return None
    start_s, span_s = float(at.min()), float(at.max() - at.min())
    share = (at - start_s) / span_s if span_s > 0 else np.zeros(len(at))
    inside = [(share >= first) & ((share < last) | (last >= 1.0)) for first, last in windows]
    if not all(part.any() for part in inside):
        return None
    one, two = ((size[part], weight[part]) for part in inside)
    top = int(size.max()) + 1
    shares = [np.bincount(sizes, weights, minlength=top) / weights.sum() for sizes, weights in (one, two)]
    return Drift(
        span_s,
        (_seconds(windows[0], span_s), _seconds(windows[1], span_s)),
        float(np.abs(shares[0] - shares[1]).sum()) / 2,
        (float(one[1].sum()), float(two[1].sum())),
        (_mean(*one), _mean(*two)),
        (_p99(*one), _p99(*two)),
    )


def _seconds(window: Window, span_s: float) -> Window:
    return window[0] * span_s, window[1] * span_s


def _timed(steps: StepTrace, family: str) -> tuple[F64, I64, F64]:
    rows = np.isfinite(steps.start_s)
    if family in steps.families:
        rows &= steps.family_index == steps.families.index(family)
    else:
        rows &= False
    return steps.start_s[rows], steps.size[rows], steps.steps[rows].astype(np.float64)


def _mean(size: I64, weight: F64) -> float:
    return float(size @ weight / weight.sum())


def _p99(size: I64, weight: F64) -> float:
    order = np.argsort(size, kind="stable")
    cumulated = np.cumsum(weight[order])
    return float(size[order][np.searchsorted(cumulated, 0.99 * cumulated[-1])])


def _quantiles(values: F64 | I64) -> tuple[float, ...]:
    return tuple(float(value) for value in np.quantile(values, QUANTILES))
