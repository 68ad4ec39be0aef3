"""How long the GPU itself works during a run: what tells a launch-bound step from one that the GPU fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from services.capture.timing import synchronize

_RUNS = 2


def busy_ms(run: Callable[[], None], device: torch.device) -> float | None:
    """Milliseconds of one run in which at least one kernel or copy was on the GPU; None on a CPU.

    The profiler slows the host down, not the kernels, so this is read apart from every timing.
    """
    if device.type != "cuda":
        return None
    run()
    synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as recorded:
        for _ in range(_RUNS):
            run()
            synchronize(device)
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in recorded.events() or ()
        if event.device_type.name == "CUDA"
    )
    return union(spans) / 1e3 / _RUNS if spans else None


def spread_out(sizes: Sequence[int], most: int) -> list[int]:
    """At most so many of these sizes, the ends among them, evenly spaced by ratio: for what changes slowly."""
    if len(sizes) <= most:
        return list(sizes)
    wanted = np.geomspace(sizes[0], sizes[-1], most)
    return sorted({min(sizes, key=lambda size: abs(size - at)) for at in wanted})


def union(spans: list[tuple[float, float]]) -> float:
    """Length of what sorted (start, end) spans cover together."""
    covered, reached = 0.0, float("-inf")
    for start, end in spans:
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered
