"""Regret: how much slower a size's bucket is than the best time that any measured, allowed size could give it."""

from __future__ import annotations

import numpy as np

from workloads.arrays import F64, I64


def best_by_size(
    sizes: I64, bucket_ms: F64, largest: int, *, exact_only: bool = False, max_padding_factor: float | None = None
) -> F64:
    """Best time per step size 0..largest: float64 [largest + 1], inf where no size could serve it.

    Args:
        sizes, bucket_ms: measured sizes that may be captured, increasing, and g of each.
        exact_only, max_padding_factor: the engine's rule, see `FamilyDispatch`.
    """
    step = np.arange(largest + 1, dtype=np.int64)
    first = np.searchsorted(sizes, step)
    if not exact_only and max_padding_factor is None:
        suffix = np.append(np.minimum.accumulate(bucket_ms[::-1])[::-1], np.inf)
        best: F64 = suffix[first]
        return best
    reach = step if exact_only else np.floor(step * (max_padding_factor or 1.0)).astype(np.int64)
    stop = np.searchsorted(sizes, reach, side="right")
    return np.array([bucket_ms[a:b].min() if b > a else np.inf for a, b in zip(first, stop, strict=True)])


def worst_regret(step_ms: F64, best_ms: F64) -> tuple[float | None, int | None]:
    """Largest step_ms / best_ms - 1 and the size where it occurs; both by size, index 0 unused.

    Returns:
        (0.0, None) where no size has a best time; (None, size) where such a size runs for an unknown time (nan).
    """
    concerned = np.isfinite(best_ms)
    concerned[0] = False
    unknown = np.flatnonzero(concerned & np.isnan(step_ms))
    if len(unknown):
        return None, int(unknown[0])
    if not concerned.any():
        return 0.0, None
    regret = np.full(len(best_ms), -np.inf)
    regret[concerned] = step_ms[concerned] / best_ms[concerned] - 1.0
    worst = int(np.argmax(regret))
    return max(0.0, float(regret[worst])), worst
