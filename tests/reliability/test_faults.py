"""Short outages, for every run of the tests; `make reliability` has the long ones."""

from __future__ import annotations

import pytest

from tests.reliability import faults


def test_a_full_disk_is_said_and_survived() -> None:
    try:
        part = faults.disk_full(2.0)
    except PermissionError as error:
        pytest.skip(str(error))
    assert part.well, part.lines()


def test_a_database_that_goes_away_for_seconds_costs_nothing() -> None:
    part = faults.database_gone(3.0)
    assert part.well, part.lines()
