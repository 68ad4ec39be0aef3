"""How many drafts a verification step accepts: drawn by hashing, so that a draw needs no state and no order."""

from __future__ import annotations

import numpy as np

from workloads.arrays import F64
from workloads.compiled import compiled


@compiled
def uniform(seed: int, request: int, draw: int) -> float:
    """A number in [0, 1) that depends on the three integers only (SplitMix64's finaliser over their mix)."""
    mixed = (
        np.uint64(seed + 1) * np.uint64(0x9E3779B97F4A7C15)
        + np.uint64(request) * np.uint64(0xBF58476D1CE4E5B9)
        + np.uint64(draw) * np.uint64(0x94D049BB133111EB)
    )
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return float(mixed >> np.uint64(11)) * 2.0**-53


@compiled
def accepted_drafts(accept: F64, seed: int, request: int, draw: int) -> int:
    """Drafts before the first rejection; `accept[j]` is the chance of more than j."""
    value = uniform(seed, request, draw)
    accepted = 0
    while accepted < len(accept) and value < accept[accepted]:
        accepted += 1
    return accepted
