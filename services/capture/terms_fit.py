"""Least squares for what a step consists of: prices that are never below 0, and a curve over real rows beside them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from workloads.arrays import F64

_SMOOTHING = 1e-3  # of the loss, for the curve's bends: decides only what no reading does


def bends(rows: F64, knots: F64) -> F64:
    """What each knot's value but the first's, which is 0, adds at `rows` (constant outside): float64 [P, K - 1].

    Args:
        rows, knots: float64 [P] and [K], in the coordinate in which the curve is linear between knots.
    """
    columns = np.column_stack([np.interp(rows, knots, unit) for unit in np.eye(len(knots))])
    return columns[:, 1:]


def slopes(knots: F64) -> F64:
    """Rows of a loss that is the integral of the curve's squared slope: float64 [K - 1, K - 1]."""
    steps = np.diff(np.eye(len(knots)), axis=0) / np.sqrt(np.diff(knots))[:, None]
    return _SMOOTHING * steps[:, 1:]


def least_squares(free: F64, prices: F64, wanted: F64, smooth: F64 | None = None) -> tuple[F64, F64]:
    """Coefficients of the free columns, float64 [F], and of the prices, float64 [K]: none of the latter below 0.

    The best of the free optima over every choice of price columns, of which there are few. What no reading decides is
    left to the free columns first, and to as many prices as there are.

    Args:
        free, prices: float64 [P, F] and [P, K], columns of P readings.
        wanted: float64 [P].
        smooth: float64 [S, F], further rows of the loss, to be 0.
    """
    rows = np.zeros((0, free.shape[1])) if smooth is None else smooth
    target = np.concatenate((wanted, np.zeros(len(rows))))
    count = prices.shape[1]
    best: tuple[float, F64, F64] | None = None
    for used in (list(some) for length in range(count, -1, -1) for some in combinations(range(count), length)):
        priced = np.vstack((prices[:, used], np.zeros((len(rows), len(used)))))
        columns = np.column_stack((np.vstack((free, rows)), priced))
        solution: F64 = np.asarray(np.linalg.lstsq(columns, target, rcond=None)[0], dtype=np.float64)
        loss = float(np.square(columns @ solution - target).sum())
        if np.all(solution[free.shape[1] :] >= 0) and (best is None or loss < best[0]):
            terms = np.zeros(count)
            terms[used] = solution[free.shape[1] :]
            best = (loss, solution[: free.shape[1]], terms)
    assert best is not None  # the choice of no price is always admitted
    return best[1], best[2]
