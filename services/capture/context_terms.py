"""What real contexts add to the times of a profile: the step models of its starts, put into a FamilyCost. No torch."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

import numpy as np

from services.capture.readings import StepModel
from tuner.cost_profile import FamilyCost
from tuner.longest_row import NO_WAIT, LongestRow
from tuner.row_curve import NO_CURVE, RowCurve
from workloads.arrays import F64

_MOST_CURVE_SHARE = 0.9  # of a full step; the rest at least is the bucket's own


def with_context(cost: FamilyCost, models: Sequence[StepModel]) -> FamilyCost:
    """Times of length-one steps with what any real context costs, and the terms of the rest: medians over starts.

    The constant, and the wait for the longest row at the middle one of the contexts that were read, become part of
    every time, on every scope alike: steps of length one do not show them, and buckets differ by them.

    Args:
        cost: of steps of length one, without terms.
        models: of one start or more.
    """
    longest_row = _longest_row(models)
    added_ms = median([model.constant_ms for model in models]) + longest_row.ms(cost.sizes, longest_row.at_tokens)
    longer = _shifted(cost, added_ms)
    curve = _row_curve([model.row_curve for model in models])
    return dataclasses.replace(
        longer,
        attention_ms_per_mtoken=median([model.attention_ms_per_mtoken for model in models]),
        row_ms=median([model.row_ms for model in models]),
        row_curve=curve.within(cost.sizes, _MOST_CURVE_SHARE * longer.step_ms),
        longest_row=longest_row,
    )


def without_context(cost: FamilyCost, constant_ms: float) -> FamilyCost:
    """The steps of length one that `with_context` made `cost` of, without terms."""
    added_ms: F64 = constant_ms + cost.longest_row.ms(cost.sizes, cost.longest_row.at_tokens)
    bare = dataclasses.replace(cost, attention_ms_per_mtoken=0.0, row_ms=0.0, row_curve=NO_CURVE, longest_row=NO_WAIT)
    return _shifted(bare, -added_ms)


def _shifted(cost: FamilyCost, added_ms: F64) -> FamilyCost:
    """Every time longer by so much, to the digits that a file has."""
    return dataclasses.replace(
        cost,
        step_ms=np.round(cost.step_ms + added_ms, 5),
        replay_ms=np.round(cost.replay_ms + added_ms, 5),
        fallback_ms=np.round(cost.fallback_ms + added_ms, 5),
    )


def _longest_row(models: Sequence[StepModel]) -> LongestRow:
    contexts = {point.context_tokens for model in models for point in model.points}
    return LongestRow.of(
        median([model.longest_row.ms_per_ktoken for model in models]),
        max(model.longest_row.unsplit_rows for model in models),
        float(statistics.median(contexts)) if contexts else 0.0,
    )


def _row_curve(curves: Sequence[RowCurve]) -> RowCurve:
    """At every number of rows that one of the curves knows."""
    known = [curve for curve in curves if len(curve.rows)]
    if not known:
        return NO_CURVE
    rows = np.unique(np.concatenate([curve.rows for curve in known]))
    rows_ms = np.round(np.median([curve.at(rows) for curve in known], axis=0), 6)
    return RowCurve(rows, rows_ms, known[0].padding_rows)


def median(values: Sequence[float]) -> float:
    """Over starts, to the digits that a file has; 0 without any."""
    return round(statistics.median(values), 6) if values else 0.0
