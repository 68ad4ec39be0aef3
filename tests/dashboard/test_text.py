"""Figures on screen: few digits, always a unit, never a lie by rounding."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import names, text


def spaced(shown: str | None) -> str:
    """A figure and its unit never part at the end of a line; here they may."""
    assert shown is not None
    return shown.replace(text.NBSP, " ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(6.567123, "6.57 ms"), (14.53, "14.5 ms"), (0.28349, "0.283 ms"), (1234.4, "1,234 ms"), (0.0, "0.00 ms")],
)
def test_milliseconds_keep_three_digits(value: float, shown: str) -> None:
    assert spaced(text.ms(value)) == shown


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_no_figure_is_off_by_more_than_half_a_percent(value: float) -> None:
    shown = float(text.digits(value).replace(",", ""))
    assert abs(shown - value) <= 0.0051 * value
    assert "e" not in text.digits(value)


def test_a_share_that_is_not_all_or_nothing_does_not_claim_to_be() -> None:
    assert spaced(text.share(0.0)) == "0 %"
    assert spaced(text.share(0.0001)) == "under 0.1 %"
    assert spaced(text.share(0.99999)) == "over 99.9 %"
    assert spaced(text.share(1.0)) == "100 %"
    assert spaced(text.share(0.1234)) == "12.3 %"


def test_what_is_not_known_says_so() -> None:
    for show in (text.ms, text.share, text.seconds, text.mib, text.duration, text.count):
        assert show(None) == "unknown"
    assert text.change(None, 3.0) is None
    assert text.change(3.0, None) is None


def test_change_names_its_direction() -> None:
    assert spaced(text.change(6.0, 8.0)) == "-25.0 %"
    assert spaced(text.change(8.0, 6.0)) == "+33.3 %"
    assert text.change(6.0001, 6.0) == "no change"


def test_counts_agree_with_their_noun() -> None:
    assert text.count(1, "sizes") == "1 size"
    assert text.count(12345, "requests") == "12,345 requests"


def test_memory_and_time_pick_their_unit() -> None:
    assert spaced(text.mib(512)) == "512 MiB"
    assert spaced(text.mib(2765)) == "2.70 GiB"
    assert spaced(text.seconds(0.0234)) == "23 ms"
    assert spaced(text.duration(3_725)) == "1 h 2 min"
    assert spaced(text.duration(3_600)) == "1 h"


def test_age_is_in_one_unit() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert text.ago(now - timedelta(seconds=5), now) == "just now"
    assert text.ago(now - timedelta(minutes=1), now) == "1 minute ago"
    assert text.ago((now - timedelta(days=3)).replace(tzinfo=None), now) == "3 days ago"


def test_a_long_list_is_cut_in_its_middle() -> None:
    shown = text.short_sizes(range(1, 101))
    assert shown.startswith("1, 2, 3") and shown.endswith("99, 100") and "…" in shown
    assert text.short_sizes((1, 2, 4)) == "1, 2, 4"


def test_engines_are_spoken_of_by_their_names() -> None:
    assert names.spoken("the default of vllm@0.33.0 is assumed.") == "The default of vLLM 0.33.0 is assumed."
    assert names.spoken("write to a@b.example") == "Write to a@b.example"
