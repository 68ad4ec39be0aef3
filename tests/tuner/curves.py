"""A profile that behaves like a measured one: a staircase, two bad kernels, costs that grow."""

from __future__ import annotations

import numpy as np

from tuner.cost_profile import FamilyCost

SIZES = np.array(sorted({*range(1, 65), *range(72, 513, 8), 100, 129, 257, 300}))


def staircase(sizes: np.ndarray) -> np.ndarray:
    """Milliseconds of a bucket: launch floor, tile steps, and the inversions at 400, 416 and 448."""
    ms = 6.1 + 0.9 * np.ceil(sizes / 64) + 1.5 * (sizes > 256) + 0.003 * sizes + 0.04 * np.sin(sizes * 1.7)
    return ms + np.select([sizes == 400, sizes == 416, sizes == 448], [1.4, 2.0, 3.6], 0.0)


def family(sizes: np.ndarray, **changes: object) -> FamilyCost:
    columns: dict[str, object] = {
        "unit": "requests",
        "sizes": sizes,
        "step_ms": staircase(sizes),
        "replay_ms": staircase(sizes) - 0.05,
        "fallback_ms": 14.0 + 0.02 * sizes,
        "spread_ms": np.full(len(sizes), 0.02),
        "capture_s": 0.1 + 0.0001 * sizes,
        "memory_mib": 2.0 + 0.02 * sizes,
        "starts": np.full(len(sizes), 2),
        "attention_ms_per_mtoken": 1.2,
        "row_ms": 0.0005,
        "pool_mib": 300.0,
        "capture_fixed_s": 0.5,
    }
    return FamilyCost(**{**columns, **changes})  # type: ignore[arg-type]
