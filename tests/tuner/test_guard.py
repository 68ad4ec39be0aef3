"""A guarded histogram: the same steps, spread over their neighbourhood."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.guard import Guard
from workloads.histogram import StepHistogram


def test_steps_are_kept_and_every_reachable_size_counts() -> None:
    recorded = StepHistogram.of_counts({8: 90.0, 100: 10.0, 300: 5.0})
    guarded = Guard(0.1, 0.05).spread(recorded, 256)
    assert guarded.total_steps == pytest.approx(105.0)
    assert guarded.sizes.tolist() == [*range(1, 257), 300]
    assert guarded.counts()[300] == 5.0  # above what the scheduler reaches: left alone


def test_a_neighbour_counts_more_than_a_stranger() -> None:
    counts = Guard(0.2, 0.0).spread(StepHistogram.of_counts({100: 1.0}), 512).counts()
    assert counts[100] > counts[110] > counts[130] and 400 not in counts
    spread = np.array([[size, steps] for size, steps in counts.items()])
    mean = (spread[:, 0] * spread[:, 1]).sum()
    assert mean == pytest.approx(100.0, rel=0.01)
