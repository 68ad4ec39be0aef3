"""Request tables: units, mapping, dropped rows, order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from workloads.errors import BadInput, BadUsage
from workloads.traces.mapping import ColumnMapping
from workloads.traces.read import read
from workloads.traces.records import ReadResult, RequestTrace

Read = Callable[..., ReadResult]


def requests_of(result: ReadResult) -> RequestTrace:
    assert isinstance(result.traffic, RequestTrace)
    return result.traffic


def test_azure_2023_times_keep_their_seven_digits_and_are_taken_as_utc(
    read_text: Read, examples: dict[str, bytes]
) -> None:
    result = read_text(examples["azure-2023"])
    trace = requests_of(result)
    assert trace.arrival_s.tolist() == [0.0, pytest.approx(4.314579, abs=1e-9)]
    assert trace.input_tokens.tolist() == [374, 396]
    assert trace.start_epoch_s == pytest.approx(1_700_158_546.68059)
    assert any("UTC" in note for note in result.notes)


def test_azure_2024_offsets_are_honoured(read_text: Read) -> None:
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    result = read_text(head + "2024-05-10 02:00:00.5+02:00,10,2\n2024-05-10 00:00:01+00:00,10,2\n")
    assert result.format == "azure-2024"
    assert requests_of(result).arrival_s.tolist() == [0.0, 0.5]
    with pytest.raises(BadInput, match=r":3: TIMESTAMP: .*not a time like those before"):
        read_text(head + "2024-05-10 00:00:00+00:00,10,2\n2024-05-10 00:00:01,10,2\n")


def test_mooncake_is_milliseconds_and_bailian_seconds(read_text: Read, examples: dict[str, bytes]) -> None:
    assert requests_of(read_text(examples["mooncake"])).arrival_s.tolist() == [0.0, 3.0]
    bailian = read_text(examples["bailian"])
    assert bailian.rows.dropped == {"no output tokens": 1}
    assert bailian.rows.first_line == {"no output tokens": 2}


def test_a_quantised_clock_is_noted(read_text: Read) -> None:
    rows = [
        f'{{"timestamp": {3000 * (i // 8)}, "input_length": 600, "output_length": 9, "hash_ids": [1, 2]}}'
        for i in range(80)
    ]
    result = read_text("\n".join(rows))
    assert result.format == "mooncake"
    assert any("ticks of about 3000 ms (10 distinct times for 80 requests)" in note for note in result.notes)


def test_hash_ids_that_fit_neither_block_leave_the_unit_open(read_text: Read) -> None:
    with pytest.raises(BadInput, match="seconds or milliseconds"):
        read_text('{"timestamp": 27, "input_length": 600, "output_length": 9, "hash_ids": [1]}\n')


@pytest.mark.parametrize(
    ("header", "rows", "arrival_s"),
    [
        ("arrival_s,input_tokens,output_tokens", "5,10,2\n6.5,10,2", [0, 1.5]),
        ("arrival_ms,prompt_tokens,completion_tokens", "5,10,2\n6.5,10,2", [0, 0.0015]),
        ("arrival_time_ns,input_toks,output_toks", "0,10,2\n1500000000,10,2", [0, 1.5]),
        ("Timestamp,Model,Request tokens,Response tokens", "5,a,10,2\n8,a,10,2", [0, 3]),
        ("timestamp,input_length,output_length", "1700000000,10,2\n1700000002.5,10,2", [0, 2.5]),
        ("timestamp,input_length,output_length", "1700000000000,10,2\n1700000002500,10,2", [0, 2.5]),
        ("timestamp,input_length,output_length", "2025-01-01T00:00:00Z,10,2\n2025-01-01T00:00:02.25Z,10,2", [0, 2.25]),
        ("id\tarrived_at\tnum_prefill_tokens\tnum_decode_tokens", "a\t1\t10\t2\nb\t2\t10\t2", [0, 1]),
        ('"arrival_s","note","input_tokens","output_tokens"', '1,"x\ny, z",10,2\n3,"",10,2', [0, 2]),
    ],
)
def test_well_known_headers_are_proposed(read_text: Read, header: str, rows: str, arrival_s: list[float]) -> None:
    result = read_text(f"{header}\n{rows}\n")
    assert result.format == "requests"
    np.testing.assert_allclose(requests_of(result).arrival_s, arrival_s, atol=1e-6)
    assert requests_of(result).input_tokens.tolist() == [10, 10]


def test_an_ambiguous_unit_is_asked_for_with_both_readings(read_text: Read) -> None:
    text = "timestamp,input_length,output_length\n0,10,2\n500,20,3\n1000,30,4\n"
    with pytest.raises(BadInput) as caught:
        read_text(text)
    assert "0.003 requests/s" in str(caught.value)
    assert "3 requests/s" in str(caught.value)
    assert caught.value.field == "timestamp"
    assert requests_of(read_text(text, mapping=ColumnMapping(time_unit="ms"))).span_s == 1.0
    assert requests_of(read_text(text, mapping=ColumnMapping(time_unit="s"))).span_s == 1000.0


def test_a_mapping_names_any_columns(read_text: Read) -> None:
    mapping = ColumnMapping("when", "p", "c", "us")
    for text in ("p,c,when,x\n10,2,5,q\n11,3,1000005,q\n", '{"p":10,"c":2,"when":5}\n{"p":11,"c":3,"when":1000005}\n'):
        trace = requests_of(read_text(text, mapping=mapping))
        assert (trace.span_s, trace.output_tokens.tolist()) == (1.0, [2, 3])
    with pytest.raises(BadInput, match=r"no column 'when'.*the file has a, b"):
        read_text("a,b\n1,2\n", mapping=mapping)
    with pytest.raises(BadUsage, match="time unit"):
        ColumnMapping(time_unit="minutes")  # type: ignore[arg-type]


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    frame = pl.DataFrame({"arrival_s": [0.0, 1.0, 2.0], "input_tokens": [5, 6, 7], "output_tokens": [1, 0, 3]})
    frame.write_parquet(path)
    result = read(path)
    assert (result.rows.read, result.rows.kept, result.rows.first_line) == (3, 2, {"no output tokens": 2})
    timed = frame.with_columns(arrival=pl.datetime(2025, 1, 1, 0, 0, pl.col("arrival_s").cast(pl.Int32)))
    timed.drop("arrival_s").write_parquet(path)
    assert requests_of(read(path)).arrival_s.tolist() == [0.0, 2.0]
    frame.with_columns(input_tokens=pl.Series([5, -6, 7])).write_parquet(path)
    with pytest.raises(BadInput, match=":2: input_tokens: a token count cannot be negative, found -6"):
        read(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BadInput, match="cut off or damaged"):
        read(path)


def test_rows_out_of_order_are_sorted_and_said(read_text: Read) -> None:
    result = read_text("arrival_s,input_tokens,output_tokens\n5,1,2\n3,2,2\n4,3,2\n")
    assert requests_of(result).arrival_s.tolist() == [0, 1, 2]
    assert requests_of(result).input_tokens.tolist() == [2, 3, 1]
    assert any("1 rows arrived before" in note for note in result.notes)


def test_failed_requests_are_dropped_and_counted_by_reason(read_text: Read) -> None:
    result = read_text("arrival_s,input_tokens,output_tokens\n0,0,0\n1,5,2\n2,0,4\n3,7,0\n4,8,1.0\n")
    assert (result.rows.read, result.rows.kept) == (5, 2)
    assert result.rows.dropped == {"no output tokens": 2, "no input tokens": 1}
    assert result.rows.first_line == {"no output tokens": 2, "no input tokens": 4}
    assert requests_of(result).span_s == 3.0


def test_a_line_is_named_right_beyond_blocks_blank_lines_and_quotes(
    read_text: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.traces.source.BLOCK_BYTES", 100)
    good = "".join(f"{i},5,2,a\n" for i in range(50))
    head = "arrival_s,input_tokens,output_tokens,note\n"
    with pytest.raises(BadInput, match=":53: input_tokens: 'many' is not a whole number"):
        read_text(head + good + "\n60,many,2,a\n")
    with pytest.raises(BadInput, match=":54: input_tokens: 'many' is not a whole number"):
        read_text(head + good + '51,5,2,"x\n\ny"\n60,many,2,a\n'.replace("\n\n", "\n"))
    assert read_text(head + good + '51,5,2,"x\n\ny"\n52,5,2,a\n').rows.kept == 52


def test_blank_lines_are_no_rows_wherever_they_stand(read_text: Read) -> None:
    result = read_text("arrival_s,input_tokens,output_tokens\n\n1,2,3\n\r\n2,3,4\n\n\n")
    assert (result.rows.read, result.rows.kept) == (2, 2)
