"""The totals and the meaning of every request format with a shape of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workloads.traces.request_examples import BENCH, aiperf, jsonl, sglang_finished
from workloads.errors import BadInput
from workloads.traces.arrivals import ArrivalProcess
from workloads.traces.mapping import ColumnMapping
from workloads.traces.read import read
from workloads.traces.records import ReadResult, RequestTrace

Read = Callable[..., ReadResult]

TOTALS: dict[str, tuple[list[float], list[int], list[int], dict[str, int], dict[str, int]]] = {
    # format -> arrival_s, input, output, dropped, first line
    "azure-2025-multimodal": ([0, 0.532], [920, 51], [33, 8], {}, {}),
    "burstgpt": (
        [0, 4],
        [472, 1087],
        [18, 230],
        {"failed request (no response tokens)": 1},
        {"failed request (no response tokens)": 3},
    ),
    "swissai": (
        [0],
        [77],
        [12],
        {"failed request": 1, "token counts not reported": 1},
        {"failed request": 2, "token counts not reported": 3},
    ),
    "aibrix": ([0, 0, 1.5], [9, 9, 5], [4, 4, 3], {}, {}),
    "tracelab": ([0], [640], [40], {"no timing event": 1}, {"no timing event": 2}),
    "llmservingsim-sessions": (
        [0, 0.5],
        [10, 7],
        [3, 2],
        {"follow-up without an arrival of its own": 1},
        {"follow-up without an arrival of its own": 1},
    ),
    "sglang-request-metrics": ([0, 2], [50, 100], [90, 5], {}, {}),
    "sglang-request-log": (
        [0, 1],
        [64, 64],
        [32, 32],
        {"event of a request that is not its end": 1},
        {"event of a request that is not its end": 1},
    ),
    "vllm-bench": ([0, 1], [10, 30], [5, 7], {"failed request": 1}, {"failed request": 1}),
    "sglang-bench": (
        [0, 0.75],
        [10, 30],
        [5, 7],
        {"request of another run in this file": 1, "no output tokens": 1},
        {"request of another run in this file": 1, "no output tokens": 2},
    ),
    "aiperf": (
        [0, 2],
        [550, 550],
        [131, 131],
        {"warm-up request": 1, "failed request": 1},
        {"warm-up request": 1, "failed request": 3},
    ),
    "guidellm": ([0, 1.5], [128, 128], [64, 64], {"failed request": 1}, {"failed request": 1}),
    "otlp-genai": (
        [0],
        [30],
        [6],
        {"span without token counts": 1, "span around another counted call": 1, "failed request": 1},
        {"span without token counts": 1, "span around another counted call": 1, "failed request": 1},
    ),
}


def requests_of(result: ReadResult) -> RequestTrace:
    assert isinstance(result.traffic, RequestTrace)
    return result.traffic


@pytest.mark.parametrize("name", sorted(TOTALS))
def test_totals(read_text: Read, examples: dict[str, bytes], name: str) -> None:
    arrival_s, inputs, outputs, dropped, first_line = TOTALS[name]
    result = read_text(examples[name])
    trace = requests_of(result)
    assert trace.arrival_s.tolist() == pytest.approx(arrival_s, abs=1e-5)
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist()) == (inputs, outputs)
    assert (dict(result.rows.dropped), dict(result.rows.first_line)) == (dropped, first_line)


def test_both_burstgpt_layouts_are_read_by_name(read_text: Read) -> None:
    six = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT-4,10,2,12,API log\n"
    result = read_text(six)
    assert (result.format, requests_of(result).input_tokens.tolist()) == ("burstgpt", [10])


def test_an_sglang_log_without_time_of_receipt_says_that_bursts_are_lost(read_text: Read) -> None:
    result = read_text(jsonl(sglang_finished(1), sglang_finished(2)))
    assert any("requests stand at the time they finished" in note for note in result.notes)
    exact = read_text(jsonl(sglang_finished(1, request_received_ts=1_760_000_000.5)))
    assert requests_of(exact).start_epoch_s == pytest.approx(1_760_000_000.5)
    assert not any("finished" in note for note in exact.notes)


def test_an_sglang_metrics_file_without_times_needs_an_arrival_process(read_text: Read) -> None:
    row = {"request_parameters": "{}", "prompt_tokens": 10, "completion_tokens": 5}
    with pytest.raises(BadInput, match="--enable-metrics"):
        read_text(jsonl(row))
    result = read_text(jsonl(row, row), mapping=ColumnMapping(arrivals=ArrivalProcess("poisson", 2)))
    assert (result.format, len(result.traffic)) == ("sglang-request-metrics", 2)


def test_a_benchmark_without_start_times_says_what_it_was_sent_at(read_text: Read) -> None:
    document = json.dumps({"tokenizer_id": "m", **BENCH})
    with pytest.raises(BadInput, match=r"no start times.*request rate 4: .*poisson"):
        read_text(document)
    result = read_text(document, mapping=ColumnMapping(arrivals=ArrivalProcess("poisson", 4, seed=1)))
    assert (result.format, result.rows.kept, result.rows.dropped) == ("vllm-bench", 2, {"no output tokens": 1})
    assert any("poisson arrivals at 4 requests/s, seed 1" in note for note in result.notes)


def test_lists_of_different_lengths_are_refused(read_text: Read) -> None:
    with pytest.raises(BadInput, match="output_lens: has 3 input and 1 output lengths"):
        read_text(json.dumps({"tokenizer_id": "m", **BENCH, "output_lens": [1], "start_times": [1, 2, 3]}))


def test_a_document_larger_than_a_row_may_be_is_read_whole(read_text: Read) -> None:
    count = 40_000
    document = {
        "tokenizer_id": "m",
        "input_lens": [100] * count,
        "output_lens": [50] * count,
        "start_times": [0.25 * i for i in range(count)],
        "errors": [""] * count,
        "generated_texts": ["some words that nobody keeps"] * count,
    }
    text = json.dumps(document)
    assert len(text) > 2 << 20
    trace = requests_of(read_text(text))
    assert (len(trace), trace.span_s) == (count, 0.25 * (count - 1))


def test_aiperf_values_of_failed_rows_do_not_hide_the_shape(read_text: Read) -> None:
    failed = aiperf(0, metrics={}, error={"message": "refused"})
    result = read_text(jsonl(failed, aiperf(1), aiperf(1)))
    assert (result.format, result.rows.kept) == ("aiperf", 2)
    assert any("1 rows repeat an earlier row's time and lengths, first at" in note for note in result.notes)


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"requests": rows}])
def test_a_json_list_of_requests_is_a_table(read_text: Read, wrap: Callable[[object], object]) -> None:
    rows = [
        {"at": {"arrival_s": 0.5 * i}, "usage": {"prompt_tokens": 10 + i, "completion_tokens": 3}} for i in range(3)
    ]
    mapping = ColumnMapping("at.arrival_s", "usage.prompt_tokens", "usage.completion_tokens", "s")
    trace = requests_of(read_text(json.dumps(wrap(rows), indent=1), mapping=mapping))
    assert (trace.span_s, trace.input_tokens.tolist()) == (1.0, [10, 11, 12])
    lines = "\n".join(json.dumps(row) for row in rows)
    assert requests_of(read_text(lines, mapping=mapping)).digest() == trace.digest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"foo": {"bar": 1},\n "x": 2}', "JSON document is not an export that Captune knows"),
        ('{"foo": {"bar": 1},\n "x": ', ":2: the JSON is cut off or damaged"),
        ('{"tokenizer_id": "m",\n "input_lens": ["a"], "output_lens": [1]}', "input_lens: the value is not what"),
        ('{"benchmarks": [{"requests": null}],\n "guidellm": 1}', "keeps no single requests"),
        ('[{"a": 1}, {"a": 2}]', "no known request or histogram columns; the file has a"),
        ('[{"a": 1}, {"a": ', "not an export that Captune knows"),
    ],
)
def test_documents_that_are_no_traces(read_text: Read, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_text(text)


def test_published_lengths_get_the_arrivals_of_the_user_s_choice(public_traces: Path) -> None:
    path = public_traces / "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv"
    result = read(path, mapping=ColumnMapping(arrivals=ArrivalProcess("gamma", 4, cv=2, seed=7)))
    trace = requests_of(result)
    assert (result.rows.read, result.rows.kept) == (28_257, 28_257)
    assert len(trace) / trace.span_s == pytest.approx(4, rel=0.05)
