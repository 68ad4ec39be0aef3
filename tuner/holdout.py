"""Hold-outs in time: one cut for the rehearsal that a verdict rests on, rolling ones for the choice of a list.

Requests are simulated once, as a whole, and the steps are cut: an engine does not start empty in the middle of a day.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tuner.case import Case
from tuner.recommendation import Scorecard
from tuner.traffic import Observed
from workloads.arrays import Bool
from workloads.traces.records import RequestTrace, StepTrace, Traffic

CUTS = (0.4, 0.6, 0.8)
"""Shares of the traffic in front of every rolling hold-out; each window reaches to the next cut, or to the end."""
LEAST_WINDOW_STEPS = 100
"""A window with fewer decode steps decides nothing and is left out."""


@dataclass(frozen=True, slots=True)
class Window:
    """One rolling hold-out: the traffic before a cut and the window behind it, both under the engine's default."""

    before: Observed
    behind: Observed
    default: Scorecard


def split(case: Case, traffic: Traffic, observed: Observed, share: float) -> tuple[Observed, Observed] | None:
    """Steps before and after the point that leaves `share` of the requests (or recorded steps) behind it.

    None where rows have no order in time (a `size,count` file), or a part would have no decode step.
    """
    if not 0 < share < 1:
        return None
    before = _between(case, traffic, observed, 0.0, 1.0 - share)
    behind = _between(case, traffic, observed, 1.0 - share, 1.0)
    return None if before is None or behind is None else (before, behind)


def windows(case: Case, traffic: Traffic, observed: Observed, until: float = 1.0) -> tuple[Window, ...]:
    """Rolling hold-outs in time order, all within the first `until` of the traffic.

    Empty where rows have no order, or no window has enough decode steps.
    """
    made = []
    for cut, following in pairwise(until * cut for cut in (*CUTS, 1.0)):
        before = _between(case, traffic, observed, 0.0, cut)
        behind = _between(case, traffic, observed, cut, following)
        if before is None or behind is None or behind.decode.total_steps < LEAST_WINDOW_STEPS:
            continue
        made.append(Window(before, behind, case.score(case.default_lists(), behind)))
    return tuple(made)


def _between(case: Case, traffic: Traffic, observed: Observed, begin: float, end: float) -> Observed | None:
    """The steps between two shares of the traffic, 0 to 1; None where there is no such decode step, or no order."""
    rows = _requested(case, traffic, observed, begin, end) if isinstance(traffic, RequestTrace) else None
    if isinstance(traffic, StepTrace) and _ordered(traffic):
        cumulated, total = np.cumsum(traffic.steps) - traffic.steps, traffic.steps.sum()
        rows = (cumulated >= begin * total) & (cumulated < end * total)
    if rows is None or not rows.any():
        return None
    steps = observed.steps.select(rows)
    histograms = steps.histograms()
    if observed.decode_family not in histograms:
        return None
    return replace(observed, steps=steps, histograms=histograms)


def _requested(case: Case, trace: RequestTrace, observed: Observed, begin: float, end: float) -> Bool:
    """Steps that started between the arrivals of two requests; the last window holds what is left to finish."""
    rows = np.ones(len(observed.steps), dtype=np.bool_)
    first, last = round(len(trace) * begin), round(len(trace) * end)
    start_s = observed.steps.start_s
    if first > 0:
        rows &= start_s >= trace.arrival_s[min(first, len(trace) - 1)] / case.serving.load
    if last < len(trace):
        rows &= start_s < trace.arrival_s[last] / case.serving.load
    return rows


def _ordered(steps: StepTrace) -> bool:
    """Rows with times are in order, and so are log lines of one step each; rows of a counted table are not."""
    if steps.origin in ("given", "reconstruction"):
        return False
    return bool(np.isfinite(steps.start_s).all()) or int(steps.steps.max()) == 1
