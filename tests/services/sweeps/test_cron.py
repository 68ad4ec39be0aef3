"""Cron lines: checked against a search minute by minute, and against dates that a person can look up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.sweeps.cron import next_time, parse_cron
from workloads.errors import BadUsage

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T10:00:30", "2026-01-01T10:01:00"),
        ("30 2 * * *", "2026-01-01T02:30:00", "2026-01-02T02:30:00"),
        ("*/15 8-18/2 * * 1-5", "2026-01-02T18:45:00", "2026-01-05T08:00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 12 13 * 5", "2026-01-01T00:00:00", "2026-01-02T12:00:00"),
        ("0 12 * * 7", "2026-01-01T00:00:00", "2026-01-04T12:00:00"),
        ("59 23 31 12 *", "2025-12-31T23:59:00", "2026-12-31T23:59:00"),
        ("0 6,18 1 */6 *", "2026-01-01T06:00:00", "2026-01-01T18:00:00"),
    ],
)
def test_the_next_time(line: str, after: str, expected: str) -> None:
    moment = next_time(line, datetime.fromisoformat(after).replace(tzinfo=UTC))
    assert moment == datetime.fromisoformat(expected).replace(tzinfo=UTC)


part = st.one_of(st.just("*"), st.builds("*/{}".format, st.integers(2, 6)), st.integers(1, 12).map(str))


@settings(max_examples=60, deadline=None)
@given(
    line=st.tuples(part, part, part, st.just("*"), st.integers(0, 7).map(str) | st.just("*")).map(" ".join),
    minutes=st.integers(0, 40 * 24 * 60),
)
def test_it_is_the_first_minute_that_fits(line: str, minutes: int) -> None:
    after, cron = START + timedelta(minutes=minutes, seconds=20), parse_cron(line)
    found = next_time(line, after)
    for later in range(1, 70 * 24 * 60):
        moment = (after + timedelta(minutes=later)).replace(second=0)
        if moment.minute in cron.minutes and moment.hour in cron.hours and cron.fits(moment):
            assert found == moment
            return
    raise AssertionError("the search found nothing")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("* * * *", "five fields"),
        ("60 * * * *", "minute is from 0 to 59"),
        ("* 5-2 * * *", "backwards"),
        ("*/0 * * * *", "from 1"),
        ("a * * * *", "'a'"),
        ("* * * * 1,,2", "weekday"),
        ("٣ * * * *", "minute"),
        ("0 0 30 2 *", "never comes"),
    ],
)
def test_a_wrong_line_is_named(line: str, word: str) -> None:
    with pytest.raises(BadUsage, match=word):
        next_time(line, START)
