"""Made-up rows in the shape of every request format: name -> (file, rows read, rows kept)."""

from __future__ import annotations

import io
import json
import tarfile


def jsonl(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def span(number: int, attributes: dict[str, int | str], parent: str = "", code: int = 0) -> dict[str, object]:
    return {
        "traceId": "aa",
        "spanId": f"s{number}",
        "parentSpanId": parent,
        "name": "chat",
        "startTimeUnixNano": str(1_760_000_000_000_000_000 + number * 250_000_000),
        "status": {"code": code},
        "attributes": [
            {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
            for key, value in attributes.items()
        ],
    }


def archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _rates(*rates: float) -> str:
    return "".join(f"{600 * i},{rate},1.0,{'Gamma,1.0,1.0' if rate else ',0,0'}\n" for i, rate in enumerate(rates))


_LENGTHS = json.dumps({"0": {"input_tokens": "{100: 0.5, 300: 0.5}", "output_tokens": "{20: 1.0}"}})
SERVEGEN = archive(
    {
        "data/language/m-small/chunk-0-trace.csv": _rates(20.0, 20.0),
        "data/language/m-small/chunk-0-dataset.json": _LENGTHS,
        "data/language/m-small/chunk-1-trace.csv": _rates(0, 10.0),
        "data/language/m-small/chunk-1-dataset.json": _LENGTHS,
        "data/language/m-small/chunk-2-trace.csv": _rates(5.0, 5.0),
    }
)
_AIPERF = {"input_sequence_length": {"value": 550, "unit": "tokens"}, "output_sequence_length": {"value": 131}}


def aiperf(second: int, phase: str = "profiling", metrics: object = None, error: object = None) -> dict[str, object]:
    start = 1_759_522_419_000_000_000 + second * 1_000_000_000
    return {
        "metadata": {"request_start_ns": start, "benchmark_phase": phase, "was_cancelled": False},
        "metrics": _AIPERF if metrics is None else metrics,
        "error": error,
    }


def sglang_finished(second: int, **meta: object) -> dict[str, object]:
    return {
        "timestamp": f"2026-01-05T10:00:{second:02d}.250000",
        "event": "request.finished",
        "rid": f"r{second}",
        "obj": {"text": "never kept"},
        "out": {"meta_info": {"prompt_tokens": 64, "completion_tokens": 32, "e2e_latency": 1.5, **meta}},
    }


BENCH = {"request_rate": 4.0, "input_lens": [10, 20, 30], "output_lens": [5, 0, 7], "ttfts": [0.1, 0.0, 0.2]}
_GUIDE_REQUEST = {"prompt_tokens": 128, "output_tokens": 64, "request_start_time": 1_760_000_000.0}

EXAMPLES: dict[str, tuple[bytes, int, int]] = {
    "azure-2025-multimodal": (
        b"TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15T12:00:00.269Z,1,920,33\n"
        b"2024-10-15T12:00:00.801Z,0,51,8\n",
        2,
        2,
    ),
    "burstgpt": (
        b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        b"19440110.5,,1.2,ChatGPT,472,18,490,API log\n19440111.5,7,0.9,GPT-4,0,0,0,Conversation log\n"
        b"19440114.5,7,3.0,GPT-4,1087,230,1317,Conversation log\n",
        3,
        2,
    ),
    "swissai": (
        jsonl(
            {
                "created_at": "2025-03-01T10:00:00.100Z",
                "finished_at": "2025-03-01T10:00:02.000Z",
                "status": "DEFAULT",
                "reported_token_input": 77,
                "reported_token_output": 12,
            },
            {
                "created_at": "2025-03-01T10:00:01.100Z",
                "finished_at": "2025-03-01T10:00:01.200Z",
                "status": "ERROR",
                "reported_token_input": -1,
                "reported_token_output": -1,
            },
            {
                "created_at": "2025-03-01T10:00:02.100Z",
                "finished_at": "2025-03-01T10:00:03.200Z",
                "status": "DEFAULT",
                "reported_token_input": -1,
                "reported_token_output": -1,
            },
        ),
        3,
        1,
    ),
    "aibrix": (
        jsonl(
            {"timestamp": 0, "requests": [{"Prompt Length": 9, "Output Length": 4, "prompt": "never kept"}] * 2},
            {"timestamp": 1500, "requests": [{"Prompt Length": 5, "Output Length": 3, "prompt": "x"}]},
        ),
        3,
        3,
    ),
    "tracelab": (
        jsonl(
            {
                "session_id": "claude:1",
                "round_index": 0,
                "input_tokens_total": 640,
                "prefix_tokens": 0,
                "newly_append_tokens": 640,
                "output_tokens": 40,
                "timing_events": [
                    {"event_type": "user_message", "timestamp": "2026-02-01T00:00:00.000Z"},
                    {"event_type": "text", "timestamp": "2026-02-01T00:00:03.000Z"},
                ],
            },
            {
                "session_id": "claude:1",
                "round_index": 1,
                "input_tokens_total": 900,
                "prefix_tokens": 640,
                "newly_append_tokens": 260,
                "output_tokens": 4,
                "timing_events": [],
            },
        ),
        2,
        1,
    ),
    "llmservingsim-sessions": (
        jsonl(
            {
                "session_id": "a",
                "arrival_time_ns": 0,
                "sub_requests": [{"input_toks": 10, "output_toks": 3}, {"input_toks": 20, "output_toks": 3}],
            },
            {"arrival_time_ns": 500_000_000, "input_toks": 7, "output_toks": 2},
        ),
        3,
        2,
    ),
    "sglang-request-metrics": (
        jsonl(
            {
                "request_parameters": '{"rid": "b", "stream": true}',
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "request_received_ts": 1_760_000_002.5,
            },
            {
                "request_parameters": '{"rid": "a"}',
                "prompt_tokens": 50,
                "completion_tokens": 90,
                "request_received_ts": 1_760_000_000.5,
            },
        ),
        2,
        2,
    ),
    "sglang-request-log": (
        jsonl(
            {"timestamp": "2026-01-05T10:00:01.000000", "event": "request.received", "rid": "r1", "obj": {}},
            sglang_finished(3),
            sglang_finished(4),
        ),
        3,
        2,
    ),
    "vllm-bench": (
        json.dumps(
            {"date": "20260105-100000", "tokenizer_id": "m", "burstiness": 1.0, **BENCH}
            | {"start_times": [5.0, 5.5, 6.0], "errors": ["", "timed out", ""], "generated_texts": ["a", "", "c"]},
            indent=2,
        ).encode(),
        3,
        2,
    ),
    "sglang-bench": (
        jsonl(
            {"backend": "sglang", "total_output_tokens_retokenized": 2}
            | {"input_lens": [1], "output_lens": [2], "start_times": [0.0], "errors": [""]},
            {"backend": "sglang", "total_output_tokens_retokenized": 12}
            | BENCH
            | {"start_times": [0.0, 0.5, 0.75], "errors": ["", "", ""]},
        ),
        4,
        2,
    ),
    "aiperf": (
        jsonl(
            aiperf(0, "warmup"),
            aiperf(1),
            aiperf(2, metrics={}, error={"code": 503, "message": "unavailable"}),
            aiperf(3),
        ),
        4,
        2,
    ),
    "guidellm": (
        json.dumps(
            {
                "metadata": {"version": 1},
                "benchmarks": [
                    {
                        "type_": "generative_benchmark",
                        "requests": {
                            "successful": [_GUIDE_REQUEST, _GUIDE_REQUEST | {"request_start_time": 1_760_000_001.5}],
                            "errored": [{"prompt_tokens": 1, "request_start_time": 1_760_000_001.0}],
                            "incomplete": [],
                        },
                    }
                ],
            }
        ).encode(),
        3,
        2,
    ),
    "otlp-genai": (
        jsonl(
            {
                "resourceSpans": [
                    {
                        "resource": {"attributes": []},
                        "scopeSpans": [
                            {
                                "spans": [
                                    span(0, {"http.method": "POST"}),
                                    span(1, {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 6}),
                                    span(
                                        2,
                                        {"gen_ai.usage.prompt_tokens": 30, "gen_ai.usage.completion_tokens": 6},
                                        parent="s1",
                                    ),
                                    span(3, {"gen_ai.usage.input_tokens": 8, "gen_ai.usage.output_tokens": 2}, code=2),
                                ]
                            }
                        ],
                    }
                ]
            }
        ),
        4,
        1,
    ),
}
