"""`size,count` files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workloads.errors import BadInput
from workloads.traces.records import ReadResult, StepTrace

Read = Callable[..., ReadResult]


def test_counts_arrive_as_given(read_text: Read) -> None:
    result = read_text("size,count\n8,3\n1,10\n8,4\n")
    assert (result.format, result.kind) == ("histogram", "histogram")
    assert isinstance(result.traffic, StepTrace)
    histogram = result.traffic.histogram("decode_full")
    assert histogram.counts() == {1: 10.0, 8: 7.0}
    assert (histogram.origin, histogram.unit) == ("given", "requests")
    assert result.traffic.span_s is None


def test_families_are_kept_apart_with_their_units(read_text: Read, examples: dict[str, bytes]) -> None:
    result = read_text(examples["histogram"])
    assert isinstance(result.traffic, StepTrace)
    assert {name: (h.unit, h.counts()) for name, h in result.traffic.histograms().items()} == {
        "decode_full": ("requests", {1: 10.0}),
        "prefill_piecewise": ("tokens", {64: 5.0}),
    }
    assert (result.rows.dropped, result.rows.first_line) == ({"zero count": 1}, {"zero count": 3})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size,count\n1,0.5\n", ":2: count: 0.5 is not a whole number"),
        ("size,count\n1,5\n0,5\n", ":3: size: must be at least 1, not 0"),
        ("size,count\n1,5\n\n2,-5\n", ":4: count: must be at least 0, not -5"),
        ("size,count\n1,many\n", ":2: count: 'many' is not a number"),
        ("size,count\n1,\n", ":2: count: a missing value is not a number"),
        ("size,count\n1,inf\n", ":2: count: 'inf' is not a number"),
        ("size,count\n1,1e300\n", ":2: count: 1e+300 is too large"),
        ("size,count\n1,5,7\n", ":2: 3 fields where the header has 2"),
        ("size,count,family\n1,5,decode\n", ":2: family: 'decode' is not a graph family"),
        ("size,count\n1,0\n", "none of the 1 rows counts a step"),
        ("size,count\n", "a header and no rows"),
        ("size,steps\n1,5\n", "no known request or histogram columns; the file has size, steps"),
    ],
)
def test_a_broken_histogram_is_refused_with_line_and_field(read_text: Read, text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_text(text)
    assert message in str(caught.value)
