"""What a profile says at measured sizes, between them and beyond them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tuner.curves import family
from tuner.cost_profile import FamilyCost, PrefillCost
from tuner.longest_row import NO_WAIT, LongestRow
from tuner.row_curve import RowCurve
from workloads.errors import BadInput


def three(**changes: object) -> FamilyCost:
    step_ms = np.array([6.0, 8.0, 7.0])
    return family(np.array([2, 4, 8]), **{"step_ms": step_ms, "attention_ms_per_mtoken": 0.0, "row_ms": 0.0, **changes})


def test_measured_points_are_exact_and_the_rest_is_an_estimate() -> None:
    cost = three()
    sizes = np.array([1, 2, 3, 4, 6, 8, 16])
    # Below the first point its time, between points a line, above the last never falling.
    assert cost.bucket_ms_at(sizes).tolist() == [6.0, 6.0, 7.0, 8.0, 7.5, 7.0, 7.0]
    assert cost.measured(sizes).tolist() == [False, True, False, True, False, True, False]


def test_g_is_the_step_without_its_context_terms() -> None:
    cost = three(context_tokens=1000.0, attention_ms_per_mtoken=100.0, row_ms=0.05)
    assert cost.bucket_ms() == pytest.approx([6.0 - 2 * 0.15, 8.0 - 4 * 0.15, 7.0 - 8 * 0.15])


def test_rows_that_cost_more_than_a_price_each_are_taken_off_too() -> None:
    curve = RowCurve.of((2, 4), (0.0, 0.4))
    cost = three(context_tokens=1000.0, attention_ms_per_mtoken=100.0, row_ms=0.05, row_curve=curve)
    assert cost.extra_ms(np.array([1, 3, 8]), np.array([0, 10_000, 0])) == pytest.approx([0.05, 0.15 + 0.2 + 1.0, 0.8])
    assert cost.bucket_ms() == pytest.approx([6.0 - 2 * 0.15, 8.0 - 4 * 0.15 - 0.4, 7.0 - 8 * 0.15 - 0.4])


def test_a_row_of_length_one_is_a_real_row() -> None:
    """Read full and without context, a bucket holds the curve at its own size, and no price of contexts."""
    curve = RowCurve.of((2, 4), (0.0, 0.4))
    cost = three(fallback_ms=np.array([np.nan, 10.0, 14.0]), row_ms=0.05, row_curve=curve)
    assert cost.bucket_ms() == pytest.approx([6.0, 7.6, 6.6])
    assert cost.fallback_ms_at(np.array([4, 8])) == pytest.approx([9.6, 13.6])
    assert cost.bucket_ms_at(np.array([8])) + cost.extra_ms(np.array([2]), np.array([0])) == pytest.approx([6.7])


def test_padding_counts_as_one_more_row_where_it_is_said() -> None:
    cost = three(fallback_ms=np.array([9.0, 10.0, 14.0]), row_curve=RowCurve.of((2, 3, 4), (0.0, 0.3, 0.4), 1))
    bucket, rows = np.array([4, 4, 8, 0]), np.array([4, 2, 2, 2])
    kv_tokens = np.zeros(4)
    assert cost.in_bucket_ms(bucket, rows, kv_tokens) == pytest.approx([8.0, 7.6 + 0.3, 6.6 + 0.3, 9.0])
    assert cost.extra_ms(rows, kv_tokens) == pytest.approx([0.4, 0.0, 0.0, 0.0])


def test_a_curve_that_noise_made_larger_than_a_step_is_scaled_down() -> None:
    curve = RowCurve.of((2, 4), (0.0, 8.0))
    sizes = np.array([2, 4])
    assert curve.within(sizes, np.array([6.0, 9.0])) is curve
    assert curve.within(sizes, np.array([6.0, 2.0])).rows_ms.tolist() == [0.0, 2.0]


def test_a_step_waits_for_its_longest_row_in_buckets_that_are_not_split() -> None:
    cost = three(fallback_ms=np.array([9.0, 10.0, 14.0]), longest_row=LongestRow(0.5, 4, 2000.0))
    bucket, rows = np.array([2, 4, 8, 8, 0]), np.array([2, 3, 8, 8, 8])
    contexts = np.array([4000.0, 4000.0, 2000.0, 1.0, 4000.0])
    # Half of the wait in a bucket of two: its rows are split over the places of the other two.
    expected = [6.0 + 0.5, 8.0 + 1.0, 7.0, 7.0 - 0.9995, 14.0 + 1.0]
    assert cost.in_bucket_ms(bucket, rows, rows * contexts) == pytest.approx(expected)
    assert cost.bucket_ms().tolist() == [6.0, 8.0, 7.0]


def test_times_at_another_context_tell_the_same_steps() -> None:
    cost = three(fallback_ms=np.array([9.0, np.nan, 14.0]), longest_row=LongestRow(0.5, 4, 2000.0))
    moved = cost.at_context(4000.0)
    assert moved.bucket_ms() == pytest.approx([6.5, 9.0, 8.0]) and moved.fallback_ms[0] == pytest.approx(9.5)
    bucket, rows, kv_tokens = np.array([2, 4, 8, 0]), np.array([1, 3, 8, 8]), np.array([900.0, 9000.0, 8.0, 8e4])
    assert moved.in_bucket_ms(bucket, rows, kv_tokens) == pytest.approx(cost.in_bucket_ms(bucket, rows, kv_tokens))
    plain = three()
    assert plain.at_context(4000.0) is plain


def test_a_wait_of_nothing_is_none_and_a_negative_one_is_refused() -> None:
    assert LongestRow.of(0.0, 33, 1536.0) == NO_WAIT
    with pytest.raises(BadInput, match="not be negative"):
        LongestRow(-0.1)


def test_fallback_is_known_where_it_was_measured_and_follows_its_slope() -> None:
    cost = three(fallback_ms=np.array([np.nan, 10.0, 14.0]))
    assert cost.fallback_ms_at(np.array([1, 4, 6, 8, 10])).tolist() == [10.0, 10.0, 12.0, 14.0, 16.0]
    at_context = three(fallback_ms=cost.fallback_ms, context_tokens=1001.0, row_ms=0.25)
    assert at_context.fallback_ms_at(np.array([4, 8])).tolist() == [9.0, 12.0]  # terms are taken off, as of buckets
    unknown = three(fallback_ms=np.full(3, np.nan))
    assert not unknown.knows_fallback and np.isnan(unknown.fallback_ms_at(np.array([1, 9]))).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_ms": np.array([1.0, 0.0, 2.0])}, "must be positive"),
        ({"step_ms": np.array([1.0, np.nan, 2.0])}, "must be positive"),
        ({"row_ms": 5.0, "context_tokens": 2.0}, "exceed the measured step"),
        ({"row_ms": 0.1, "row_curve": RowCurve.of((4,), (-0.5,))}, "cannot make a step shorter"),
    ],
)
def test_impossible_costs_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        three(**changes)


def test_columns_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        three().step_ms[0] = 1.0


def test_prefill_curve_takes_the_shortest_prefix_and_prices_the_rest() -> None:
    tokens = np.array([100.0, 100.0, 200.0, 200.0])
    prefix = np.array([500.0, 0.0, 0.0, 500.0])
    prefill = PrefillCost(tokens, prefix, 5.0 + 0.01 * tokens + 2e-6 * tokens * prefix)
    at, ms = prefill.curve()
    assert at.tolist() == [100.0, 200.0] and ms.tolist() == [6.0, 7.0]
    assert prefill.prefix_ms_per_token2() == pytest.approx(2e-6)
    assert PrefillCost(tokens[1:3], prefix[1:3], ms).prefix_ms_per_token2() == 0.0
