"""Ladders by rule of thumb: what each of them promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.engines.base import AllowedSizes
from tuner.ladders import padding_bounded, powers_of_two, quantiles
from workloads.histogram import StepHistogram

SIZES = st.sets(st.integers(1, 300), min_size=1, max_size=60).map(lambda sizes: np.array(sorted(sizes)))


@pytest.mark.parametrize(("top", "multiple"), [(512, 1), (100, 1), (96, 4), (1, 1)])
def test_powers_of_two_end_at_the_largest_size(top: int, multiple: int) -> None:
    ladder = powers_of_two(AllowedSizes(largest=top, reachable=top, multiple_of=multiple))
    assert ladder[0] == multiple and ladder[-1] == top
    assert all(size % multiple == 0 for size in ladder)


@given(SIZES, st.integers(1, 12), st.data())
def test_quantiles_are_candidates_and_split_the_steps_evenly(
    candidates: np.ndarray, length: int, data: st.DataObject
) -> None:
    within = st.integers(1, int(candidates[-1]))
    histogram = StepHistogram.of_counts(data.draw(st.dictionaries(within, st.floats(0.5, 9), min_size=1, max_size=20)))
    ladder = quantiles(histogram, candidates, length)
    assert set(ladder) <= set(candidates.tolist()) and len(ladder) <= length and ladder[-1] >= histogram.largest
    if len(ladder) == length and np.isin(histogram.sizes, candidates).all():
        heaviest = histogram.steps.max() / histogram.total_steps
        below = [histogram.steps[histogram.sizes <= size].sum() / histogram.total_steps for size in (0, *ladder)]
        assert np.diff(below).max() <= 1 / length + heaviest + 1e-9


@given(SIZES, st.sampled_from([0.1, 0.25, 0.5]))
def test_no_step_is_padded_more_than_promised_where_a_candidate_allows_it(candidates: np.ndarray, share: float) -> None:
    ladder = padding_bounded(candidates, share)
    assert ladder[-1] == candidates[-1] and set(ladder) <= set(candidates.tolist())
    for size in range(1, int(candidates[-1]) + 1):
        bucket = next(b for b in ladder if b >= size)
        least = int(candidates[np.searchsorted(candidates, size)])  # the closest fit there is
        assert bucket <= max(size / (1 - share), least) + 1e-9
