"""The quick way to read times gives what the general one gives, or hands the column over."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.traces.iso_times import fixed_width_ns

FORMATS = [
    # layout that polars writes, what is written behind it, resolution in ns, the offset of that zone
    ("%Y-%m-%d %H:%M:%S%.6f", "+00:00", 1_000, 0),
    ("%Y-%m-%dT%H:%M:%S%.3f", "Z", 1_000_000, 0),
    ("%Y-%m-%d %H:%M:%S%.9f", "", 1, 0),
    ("%Y-%m-%d %H:%M:%S", "-0530", 1_000_000_000, -19_800),
]


@pytest.mark.parametrize(("layout", "zone", "resolution_ns", "offset_s"), FORMATS)
@settings(deadline=None)
@given(instants=st.lists(st.integers(-9 * 10**18, 9 * 10**18), min_size=1, max_size=30))
def test_times_are_read_exactly(layout: str, zone: str, resolution_ns: int, offset_s: int, instants: list[int]) -> None:
    whole = np.array(instants) // resolution_ns * resolution_ns
    text = pl.Series(whole).cast(pl.Datetime("ns")).dt.to_string(layout) + zone
    found = fixed_width_ns(text)
    assert found is not None
    np.testing.assert_array_equal(found, whole - offset_s * 1_000_000_000)


@pytest.mark.parametrize(
    "rows",
    [
        ["2024-05-10 00:00:00", "2024-05-10 24:00:00"],
        ["2024-05-10 00:00:00", "2024-05-10 00:60:00"],
        ["2024-05-10 00:00:00", "2024-05-10 00:00:60"],
        ["2024-05-10 00:00:00", "2024-02-30 00:00:00"],
        ["2024-05-10 00:00:00", "2024-05-10 00:00:0x"],
        ["2024-05-10 00:00:00", "2024-05-10T00:00:00"],
        ["2024-05-10 00:00:00", "2024-05-10 00:00:00.5"],
        ["2024-05-10 00:00:00+00:00", "2024-05-10 00:00:00+01:00"],
        ["2024-05-10 00:00:00", "9999-05-10 00:00:00"],
        ["2024-05-10 00:00:00", None],
        ["yesterday"],
        [],
    ],
)
def test_what_is_not_all_alike_goes_the_general_way(rows: list[str | None]) -> None:
    assert fixed_width_ns(pl.Series(rows, dtype=pl.String)) is None
