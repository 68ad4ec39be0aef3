"""Logs that are long: the quick way reads what the patterns read, and memory does not grow with the length."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.traces.test_sglang_log import DECODE_LINES, PREFILL_LINES, decode, prefill
from workloads.traces.records import ReadResult, StepTrace
from workloads.traces.sglang_log import SglangLog
from workloads.traces.step_rows import merge_neighbours

Read = Callable[..., ReadResult]
USUAL = [line for line, _ in DECODE_LINES.values()] + list(PREFILL_LINES.values()) + [decode(1, 8), prefill(2, 77)]

words = st.sampled_from(
    ["Decode batch", "Prefill batch", ", ", ". ", ": ", "#running-req: ", "#token: ", "12", "7.5", "TP1"]
)
lines = st.one_of(
    st.sampled_from(USUAL),
    st.tuples(st.sampled_from(USUAL), st.integers(0, 200), words).map(lambda t: t[0][: t[1]] + t[2] + t[0][t[1] :]),
    st.tuples(st.sampled_from(USUAL), st.integers(0, 200)).map(lambda t: t[0][: t[1]]),
)


def _quick(reader: SglangLog, data: bytes) -> pl.DataFrame:
    rows, rest, numbers = reader.usual_rows(data, 1)
    return rows, rest, numbers


@settings(max_examples=200, deadline=None)
@given(st.lists(lines, min_size=1, max_size=8))
def test_the_quick_way_reads_a_line_as_the_patterns_do_or_hands_it_back(texts: list[str]) -> None:
    reader = SglangLog()
    data = "".join(text + "\n" for text in texts).encode()
    quick, rest, numbers = reader.usual_rows(data, 1)
    assert rest == b"".join(texts[n - 1].encode() + b"\n" for n in numbers)
    assert sorted([*quick["line"], *numbers.tolist()]) == list(range(1, len(texts) + 1))
    taken = [texts[n - 1] for n in quick["line"]]
    slow = reader.extract(
        pl.DataFrame({"line": quick["line"], "text": taken}, schema={"line": pl.Int64, "text": pl.String})
    )
    assert quick.to_dicts() == slow.with_columns(pl.col("engine").fill_null("")).to_dicts(), taken


def test_the_usual_lines_of_the_current_release_take_the_quick_way() -> None:
    data = "\n".join([decode(1, 8), prefill(2, 77), PREFILL_LINES["0.5.23"], DECODE_LINES["0.5.23"][0], ""]).encode()
    quick, _, numbers = SglangLog().usual_rows(data, 1)
    # The last one has `accept len` inside another key, which only the patterns settle.
    assert quick["line"].to_list() == [1, 2, 3]
    assert numbers.tolist() == [4]


def test_the_quick_way_has_the_whole_calendar() -> None:
    days = [date(1970, 1, 1) + timedelta(days=n) for n in range(60_000)]
    impossible = ["2025-02-29", "2100-02-29", "2025-04-31", "2025-12-32", "2025-00-10", "2025-13-10", "2025-06-00"]
    line = "[{} 12:30:05] Decode batch, #running-req: 4, #token: 77, token usage: 0.02\n"
    data = "".join(line.format(day) for day in [*days, *impossible]).encode()
    quick, _, numbers = SglangLog().usual_rows(data, 1)
    noon = 12 * 3600 + 30 * 60 + 5
    assert quick["time_s"].to_list() == [86_400.0 * n + noon for n in range(len(days))]
    assert numbers.tolist() == [len(days) + 1 + n for n in range(len(impossible))]


def test_a_long_log_reads_the_same_by_either_way(read_text: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(
        line
        for i in range(300)
        for line in (decode(i % 60, 1 + i % 7, rank=f"TP{i % 2}"), "INFO: GET /", prefill(1, 64))
    )
    slow = read_text(text)
    monkeypatch.setattr("workloads.traces.log_reader.USUAL_FROM_BYTES", -1)
    quick = read_text(text)
    assert quick.rows == slow.rows
    assert quick.traffic.digest() == slow.traffic.digest()


def test_many_rows_are_joined_without_losing_a_step(read_text: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(decode(i // 20, 1 + i % 5, more="gen throughput (token/s): 100.00, ") for i in range(1000))
    whole = read_text(text)
    monkeypatch.setattr("workloads.traces.log_reader.CHUNK_ROWS", 50)
    monkeypatch.setattr("workloads.traces.step_rows.MOST_ROWS", 100)
    monkeypatch.setattr("workloads.traces.log_lines.PIECE_BYTES", 500)
    short = read_text(text)
    assert short.rows == whole.rows
    assert isinstance(short.traffic, StepTrace)
    assert isinstance(whole.traffic, StepTrace)
    assert len(short.traffic) < 150
    a, b = short.traffic.histogram("decode_full"), whole.traffic.histogram("decode_full")
    assert a.counts() == b.counts()
    np.testing.assert_allclose(a.kv_tokens, b.kv_tokens)
    assert np.all(np.diff(short.traffic.start_s) >= 0)
    assert any("joined" in note for note in short.notes)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.one_of(st.none(), st.integers(1, 9)), st.sampled_from(["a", "b"])), min_size=1
    )
)
def test_joined_rows_keep_sums_and_means(rows: list[tuple[int, int | None, str]]) -> None:
    frame = pl.DataFrame(
        {
            "line": range(len(rows)), "family": [0] * len(rows), "size": [r[0] for r in rows],
            "steps": [r[0] * 2 for r in rows], "time_s": [float(i) for i in range(len(rows))],
            "step_ms": [None if r[1] is None else float(r[1]) for r in rows],
            "kv_tokens": [float("nan")] * len(rows), "padded_size": [0] * len(rows),
            "fallback": [-1] * len(rows), "engine": [r[2] for r in rows], "lines": [1] * len(rows),
        },
        schema_overrides={"family": pl.Int8, "fallback": pl.Int8, "step_ms": pl.Float64},
    )  # fmt: skip
    merged = merge_neighbours(frame, len(rows))
    expected = {(r[0], r[2]) for r in rows}
    assert {(size, engine) for size, engine in merged.select("size", "engine").iter_rows()} == expected
    assert merged["lines"].sum() == len(rows)
    assert merged["steps"].sum() == frame["steps"].sum()
    for size, engine, ms in merged.select("size", "engine", "step_ms").iter_rows():
        known = [r[1] for r in rows if (r[0], r[2]) == (size, engine) and r[1] is not None]
        assert (ms is None) == (not known)
        assert ms is None or ms == pytest.approx(sum(known) / len(known))
