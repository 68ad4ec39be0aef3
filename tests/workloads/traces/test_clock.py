"""What is odd about recorded times is named, with where it begins and what was done."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from workloads.errors import BadInput, BadUsage
from workloads.traces.arrivals import ArrivalProcess
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult, RequestTrace

Read = Callable[..., ReadResult]
HEAD = "arrival_s,input_tokens,output_tokens\n"


def requests_of(result: ReadResult) -> RequestTrace:
    assert isinstance(result.traffic, RequestTrace)
    return result.traffic


def noted(result: ReadResult, text: str) -> bool:
    return any(text in note for note in result.notes)


def test_rows_out_of_order_name_the_first_line(read_text: Read) -> None:
    result = read_text(HEAD + "1,5,2\n\n3,5,2\n2,6,2\n4,5,2\n")
    assert noted(result, "1 rows arrived before the row above them, first at")
    result = read_text(HEAD + "1,5,2\n0,0,0\n3,5,2\n2,6,2\n4,5,2\n")
    assert noted(result, "first at line 5; the requests were sorted by arrival")


def test_midnight_adds_a_day(read_text: Read) -> None:
    result = read_text(HEAD + "86398,5,2\n86399,5,2\n1,6,2\n86390,7,2\n2,8,2\n")
    assert requests_of(result).arrival_s.tolist() == [0, 1, 3, 86392, 86404]
    assert noted(result, "the clock starts again 2 times, first at line 4: read as midnight, a day was added")


def test_a_second_recording_in_the_same_file_is_named(read_text: Read) -> None:
    rows = "".join(f"{t},5,2\n" for t in [*range(0, 1000, 10), *range(0, 1000, 10)])
    result = read_text(HEAD + rows)
    assert noted(result, "the clock falls back by 990 s at line 102, as where a second recording begins")
    assert noted(result, "100 rows repeat an earlier row's time and lengths, first at line 102")


def test_repeated_rows_are_counted_and_kept(read_text: Read) -> None:
    result = read_text(HEAD + "0,5,2\n1,5,2\n1,6,2\n1,5,2\n1,5,2\n2,5,2\n")
    assert result.rows.kept == 6
    assert noted(result, "2 rows repeat an earlier row's time and lengths, first at line 5; they were kept")
    assert not noted(read_text(HEAD + "0,5,2\n0,6,2\n1,6,2\n"), "repeat")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_repeats_are_counted_like_a_set_would(read_text: Read, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = [tuple(int(v) for v in random.integers(1, 4, 3)) for _ in range(60)]
    result = read_text(HEAD + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    repeats = [i for i, row in enumerate(rows) if row in rows[:i]]
    assert noted(
        result, f"{len(repeats)} rows repeat an earlier row's time and lengths, first at line {repeats[0] + 2};"
    )


def test_ticks_are_spread_on_request(read_text: Read) -> None:
    rows = "".join(f"{3 * (i // 8)},{i + 1},2\n" for i in range(80))
    coarse = read_text(HEAD + rows)
    assert noted(coarse, "ticks of about 3000 ms (10 distinct times for 80 requests)")
    spread = read_text(HEAD + rows, mapping=ColumnMapping(spread_ticks_seed=5))
    trace = requests_of(spread)
    assert noted(spread, "spread at random inside their ticks")
    assert len(set(trace.arrival_s.tolist())) == 80
    assert 24 < trace.span_s < 30
    assert requests_of(read_text(HEAD + rows, mapping=ColumnMapping(spread_ticks_seed=5))).digest() == trace.digest()


def test_time_scale_and_time_zone(read_text: Read) -> None:
    slow = read_text(HEAD + "0,5,2\n3,5,2\n", mapping=ColumnMapping(time_scale=2))
    assert requests_of(slow).span_s == 6
    assert noted(slow, "every time was multiplied by 2")
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,5,6\n2023-11-16 18:15:47.68,5,6\n"
    utc, zurich = read_text(text), read_text(text, mapping=ColumnMapping(time_zone="Europe/Zurich"))
    assert (zurich.format, requests_of(zurich).span_s) == ("azure-2023", 1.0)
    assert noted(zurich, "taken as Europe/Zurich")
    first, second = requests_of(utc).start_epoch_s, requests_of(zurich).start_epoch_s
    assert first is not None and second is not None
    assert first - second == 3600


def test_an_hour_that_a_zone_does_not_have_is_refused(read_text: Read) -> None:
    text = HEAD.replace("arrival_s", "arrival") + "2024-03-31 01:59:59,5,2\n2024-03-31 02:30:00,5,2\n"
    with pytest.raises(BadInput, match=":3: arrival: '2024-03-31 02:30:00' is not a time"):
        read_text(text, mapping=ColumnMapping(time_zone="Europe/Zurich"))


@pytest.mark.parametrize(("kind", "cv"), [("poisson", 1.0), ("gamma", 2.0), ("uniform", 3**-0.5)])
def test_arrival_processes_have_their_rate_and_burstiness(kind: str, cv: float) -> None:
    process = ArrivalProcess.parse(f"{kind}:8,seed=3" + (",cv=2" if kind == "gamma" else ""))
    times = process.sample_s(40_000)
    gaps = np.diff(times)
    assert times[0] == 0
    assert 1 / gaps.mean() == pytest.approx(8, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)
    np.testing.assert_array_equal(times, process.sample_s(40_000))


@pytest.mark.parametrize("text", ["poisson", "poisson:0", "poisson:x", "bursts:3", "gamma:3,cv=-1", "poisson:3,x=1"])
def test_a_wrong_arrival_process_is_bad_usage(text: str) -> None:
    with pytest.raises(BadUsage):
        ArrivalProcess.parse(text)


@pytest.mark.parametrize("wrong", [{"time_zone": "Mars/Base"}, {"time_scale": 0.0}, {"time_zone": "../../etc/passwd"}])
def test_a_wrong_mapping_is_bad_usage(wrong: dict[str, object]) -> None:
    with pytest.raises(BadUsage):
        ColumnMapping(**wrong)  # type: ignore[arg-type]


def test_lengths_without_times_ask_for_an_arrival_process(read_text: Read) -> None:
    text = "num_prefill_tokens,num_decode_tokens\n5,5\n7,8\n"
    with pytest.raises(BadInput, match="for lengths without times give an arrival process"):
        read_text(text)
    result = read_text(text, mapping=ColumnMapping(arrivals=ArrivalProcess("uniform", 2)))
    assert requests_of(result).output_tokens.tolist() == [5, 8]
    assert noted(result, "arrival times are not from the file: uniform arrivals at 2 requests/s, seed 0")
