"""The rehearsal: fit to the first part of a trace in time, score on the rest, beside the engine's default."""

from __future__ import annotations

import numpy as np

from tuner.case import Case
from tuner.recommendation import Holdout
from workloads.errors import BadInput, Infeasible
from workloads.traces.records import RequestTrace, StepTrace, Traffic


def split(traffic: Traffic, share: float) -> tuple[Traffic, Traffic] | None:
    """The trace before and after the point that leaves `share` of its requests (or steps) behind it.

    None where rows have no order in time (a `size,count` file), or a part would be empty.
    """
    if not 0 < share < 1:
        return None
    if isinstance(traffic, RequestTrace):
        at = round(len(traffic) * (1 - share))
        return (traffic.window(0, at), traffic.window(at, len(traffic))) if 0 < at < len(traffic) else None
    if not _ordered(traffic):
        return None
    cumulated = np.cumsum(traffic.steps)
    at = int(np.searchsorted(cumulated, cumulated[-1] * (1 - share)))
    return (traffic.window(0, at), traffic.window(at, len(traffic))) if 0 < at < len(traffic) else None


def _ordered(steps: StepTrace) -> bool:
    """Rows with times are in order, and so are log lines of one step each; rows of a counted table are not."""
    if steps.origin in ("given", "reconstruction"):
        return False
    return bool(np.isfinite(steps.start_s).all()) or int(steps.steps.max()) == 1


def rehearse(case: Case, traffic: Traffic, share: float, list_length: int) -> tuple[Holdout | None, float]:
    """Fit a list of at most `list_length` sizes to the first part and score it on the rest.

    Both lists are scored on the same held-out steps: those of the engine's default.

    Returns:
        the rehearsal (None where the traffic cannot be split, or a part has no decode step) and the number of
        held-out decode steps.
    """
    parts = split(traffic, share)
    if parts is None:
        return None, 0.0
    default = case.default_lists()
    try:
        fitted = case.front(case.observe(parts[0], default)).at(list_length)
        held_out = case.observe(parts[1], default)
        steps = held_out.decode.total_steps
    except (BadInput, Infeasible):
        return None, 0.0
    if fitted is None:
        return None, 0.0
    lists = case.lists_of(fitted.sizes)
    return Holdout(share, lists, case.score(lists, held_out), case.score(default, held_out)), steps
