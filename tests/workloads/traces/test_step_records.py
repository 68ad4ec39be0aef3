"""Step records beside classic logs: TensorRT-LLM, Prometheus, forward-pass metrics, batch-size times, our record."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workloads.traces.step_examples import (
    forward_message,
    iteration_line,
    range_document,
    scrape,
    statistics,
    trtllm_scrape,
)
from workloads.errors import BadInput, BadUsage, MissingExtra
from workloads.traces.observe import observe_file, observe_lines
from workloads.traces.records import ReadResult, StepTrace

Read = Callable[..., ReadResult]


def steps_of(result: ReadResult) -> StepTrace:
    assert isinstance(result.traffic, StepTrace)
    return result.traffic


@pytest.mark.parametrize("new", [True, False])
def test_both_forms_of_the_tensorrt_llm_line_give_size_and_own_time(read_text: Read, new: bool) -> None:
    lines = [
        iteration_line(7, 12, new=new, before_ms="N/A"),
        iteration_line(8, 13, new=new, before_ms="7.5ms"),
        iteration_line(9, 14, new=new, context=512, generated=13, before_ms="8.5ms"),
        iteration_line(11, 15, new=new, before_ms="99.0ms"),  # 10 is missing, so 99 ms is not the time of 9
    ]
    result = read_text("\n".join(lines))
    steps = steps_of(result)
    assert (result.format, steps.origin) == ("tensorrt-llm-iterations", "census")
    assert steps.size.tolist() == [12, 13, 525, 15]
    assert [steps.families[i] for i in steps.family_index] == ["decode_full"] * 2 + ["prefill_piecewise", "decode_full"]
    assert steps.units == ("requests", "tokens")
    np.testing.assert_array_equal(steps.step_ms, [7.5, 8.5, np.nan, np.nan])
    assert steps.start_s.tolist() == [0, 1, 2, 4]


def test_generation_tokens_above_the_requests_are_padding_unless_they_are_drafts(read_text: Read) -> None:
    padded = [iteration_line(1, 8, generated=8), iteration_line(2, 10, generated=16)]
    assert steps_of(read_text("\n".join(padded))).padded_size.tolist() == [0, 16]
    drafts = [iteration_line(1, 8, generated=32), iteration_line(2, 10, generated=40)]
    assert steps_of(read_text("\n".join(drafts))).padded_size.tolist() == [0, 0]


def test_tensorrt_llm_ranks_count_once_and_attention_dp_takes_the_largest(read_text: Read) -> None:
    same = [iteration_line(i, 8 + i, rank=rank) for i in range(3) for rank in (1, 0)]
    result = read_text("\n".join(same))
    assert steps_of(result).size.tolist() == [8, 9, 10]
    assert result.rows.dropped == {"other TP rank": 3}
    differ = [iteration_line(i, 8 + 3 * rank * (i % 2), rank=rank) for i in range(4) for rank in (0, 1)]
    result = read_text("\n".join(differ))
    assert steps_of(result).size.tolist() == [8, 11, 8, 11]
    assert result.rows.dropped == {"smaller rank of the same step": 4}


def test_torn_lines_of_tensorrt_llm_are_counted(read_text: Read) -> None:
    result = read_text(iteration_line(1, 8) + "\n" + iteration_line(2, 8)[:140] + "\n" + iteration_line(3, 0) + "\n")
    assert result.rows.dropped == {"unreadable line": 1, "empty step": 1}


def test_tensorrt_llm_says_what_it_captured() -> None:
    seen = observe_lines(
        [
            "[TensorRT-LLM] TensorRT-LLM version: 1.3.0rc2",
            "LLM Args: max_batch_size=64 max_num_tokens=8192 cuda_graph_config=CudaGraphConfig(batch_sizes=[1, 2, 64])",
            "Run generation only CUDA graph warmup for batch size=4, draft_len=0",
            "Run generation only CUDA graph warmup for batch size=1, draft_len=0",
            "[MemUsageChange] Allocated 12.30 GiB for max tokens in paged KV cache (123456).",
        ],
        "tensorrt-llm",
    )
    assert (seen.version, seen.lists, seen.kv_tokens) == ("1.3.0rc2", {"decode": (1, 4)}, 123456)
    assert seen.options["max_batch_size"] == "64"


@pytest.mark.parametrize("lines", [False, True])
def test_iteration_statistics_come_as_a_list_or_as_lines(read_text: Read, lines: bool) -> None:
    objects = [statistics(1, 8), statistics(2, 6, context=100, ms=20.0), statistics(3, 0), {"iter": 4}]
    text = "\n".join(map(json.dumps, objects)) if lines else json.dumps(objects)
    result = read_text(text)
    steps = steps_of(result)
    assert (result.format, steps.origin) == ("tensorrt-llm-stats", "census")
    assert steps.size.tolist() == [8, 106]
    assert steps.step_ms.tolist() == [9.5, 20.0]
    assert steps.kv_tokens[0] == 320
    assert result.rows.dropped == {"empty step": 1, "incomplete record": 1}
    assert result.observation is not None
    assert result.observation.kv_tokens == 32_000


def test_statistics_of_attention_dp_ranks_keep_the_largest(read_text: Read) -> None:
    objects = [statistics(i, 4 + rank, rank=rank) for i in range(3) for rank in range(2)]
    assert steps_of(read_text(json.dumps(objects))).size.tolist() == [5, 5, 5]


def test_a_prometheus_gauge_is_a_sample_and_engines_are_never_summed(read_text: Read) -> None:
    text = "".join(scrape(n) + scrape(5, engine="1") for n in (8, 0, 9)) + scrape(7)
    result = read_text(text)
    steps = steps_of(result)
    assert (result.format, steps.origin, steps.units) == ("prometheus", "sample", ("requests",))
    assert steps.size.tolist() == [8, 9, 7]
    assert result.rows.dropped == {"idle": 1, "other engine": 3}
    assert result.observation is not None
    assert result.observation.engine == "vllm"


def test_graph_pass_counters_weigh_each_scrape_and_show_fallbacks(read_text: Read) -> None:
    scrapes = [
        scrape(8, passes=(100, 0), seconds=1.0),
        scrape(8, passes=(150, 0), seconds=1.5),
        scrape(70, passes=(150, 30), seconds=2.0),
        scrape(70, passes=(150, 30), seconds=2.0),
        scrape(9, passes=(10, 0), seconds=0.1),
    ]
    result = read_text("".join(scrapes))
    steps = steps_of(result)
    assert steps.origin == "reconstruction"
    assert list(zip(steps.size, steps.steps, steps.fallback, strict=True)) == [(8, 50, 0), (70, 30, 1), (9, 10, 0)]
    np.testing.assert_allclose(steps.step_ms, [10.0, np.nan, np.nan])
    assert steps.fallbacks_seen is True
    assert result.rows.dropped == {"first scrape: no step count yet": 1, "no decode step since the scrape before": 1}
    assert any("restarted" in note for note in result.notes)


def test_tensorrt_llm_gauges_tell_size_time_and_kv_of_one_iteration(read_text: Read) -> None:
    text = trtllm_scrape(8) + trtllm_scrape(9, iteration_s=0.012, blocks=20) + trtllm_scrape(9, 1) + trtllm_scrape(0)
    result = read_text(text)
    steps = steps_of(result)
    assert (result.format, steps.origin, steps.size.tolist()) == ("prometheus", "sample", [8, 9])
    np.testing.assert_allclose(steps.step_ms, [10.0, 12.0])
    assert steps.kv_tokens.tolist() == [320, 640]
    assert result.rows.dropped == {"the step of this scrape held a prefill": 1, "idle": 1}
    assert result.observation is not None
    assert (result.observation.engine, result.observation.kv_tokens) == ("tensorrt-llm", 32_000)


def test_tensorrt_llm_with_active_requests_alone_is_a_sample_too(read_text: Read) -> None:
    steps = steps_of(read_text("trtllm_num_requests_running 3.0\ntrtllm_num_requests_running 4.0\n"))
    assert steps.size.tolist() == [3, 4]
    assert np.isnan(steps.step_ms).all()


def test_a_range_query_keeps_one_engine_and_refuses_sums(read_text: Read) -> None:
    document = range_document(a=[(100.0, "8"), (115.0, "9"), (130.0, "7")], b=[(100.0, "80")])
    result = read_text(document)
    steps = steps_of(result)
    assert (result.format, steps.size.tolist(), steps.start_s.tolist()) == ("prometheus-range", [8, 9, 7], [0, 15, 30])
    assert steps.sample_every_s == 15.0
    summed = {"data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"]]}]}}
    with pytest.raises(BadInput, match="sum"):
        read_text(json.dumps(summed))


@pytest.mark.parametrize(
    "broken",
    [
        '{"data":{"resultType":"matrix","result":3}}',
        '{"resultType":"matrix"',
        '{"data":{"resultType":"matrix","result":[{"metric":{"__name__":"vllm:num_requests_running"},"values":[[1]]}]}}',
    ],
)
def test_a_broken_range_query_is_bad_input(read_text: Read, broken: str) -> None:
    with pytest.raises(BadInput):
        read_text(broken, format="prometheus-range")


def test_forward_passes_are_a_census_with_times_and_kv_tokens(read_text: Read) -> None:
    messages = [forward_message(1, 8), forward_message(2, 8, prefill=64), forward_message(5, 9, wall_s=0.02)]
    result = read_text(b"".join(messages))
    steps = steps_of(result)
    assert (result.format, steps.origin) == ("forward-pass-metrics", "census")
    assert steps.size.tolist() == [8, 72, 9]
    assert [steps.families[i] for i in steps.family_index] == ["decode_full", "prefill_breakable", "decode_full"]
    assert steps.step_ms.tolist() == [12.5, 12.5, 20.0]
    assert steps.kv_tokens[0] == 5600
    assert any("2 forward passes are missing" in note for note in result.notes)


def test_forward_passes_of_an_unknown_version_and_torn_streams_are_bad_input(read_text: Read) -> None:
    with pytest.raises(BadInput, match="version"):
        read_text(b"\x97\x02" + forward_message(1, 8)[2:])
    with pytest.raises(BadInput):
        read_text(b"\x97\x01\xc1\xc1\xc1")
    assert read_text(forward_message(1, 8) + forward_message(2, 8)[:-3]).rows.read == 1


def test_forward_passes_name_the_extra_that_they_need(read_text: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name == "msgpack":
            raise ImportError(name)
        return plain(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(MissingExtra, match=r"captune\[record\]"):
        read_text(forward_message(1, 8))


STATS = (
    "(EngineCore pid=5) INFO 04-10 03:44:{second} [x.py:1] Batchsize forward time stats "
    "(batchsize, count, median_time(ms)): {rows}"
)


def test_batch_size_times_are_cumulative_so_the_last_line_of_each_start_counts(read_text: Read) -> None:
    lines = [
        STATS.format(second=10, rows="[(16, 5, 9.0)]"),
        STATS.format(second=20, rows="[(16, 50, 9.5), (8, 10, 9.1)]"),
        STATS.format(second=30, rows="[(16, 7, 9.7)]"),  # started again
        STATS.format(second=40, rows="[(16, 9, 9.8), (8, "),
    ]
    result = read_text("\n".join(lines))
    steps = steps_of(result)
    assert list(zip(steps.size, steps.steps, steps.step_ms, strict=True)) == [(16, 50, 9.5), (8, 10, 9.1), (16, 7, 9.7)]
    assert result.rows.dropped == {"unreadable line": 1, "superseded by a later line": 1}
    assert steps.origin == "reconstruction"


def test_a_step_record_shows_its_gaps_and_reads_back_what_was_seen(read_text: Read, tmp_path: Path) -> None:
    lines = [
        '{"captune_steps": 1, "source": "x.log", "families": ["decode_full", "prefill_breakable"], '
        '"units": ["requests", "tokens"], "origin": "sample", "sample_every_steps": 40, '
        '"family_origins": ["sample", "census"]}',
        '{"t": 10.5, "size": 8, "step_ms": 9.5, "fallback": 0}',
        '{"gap": {"from_s": 10.5, "to_s": 70.5, "reason": "the log was cut"}}',
        '{"observation": {"engine": "sglang", "lists": {"decode": [1, 2]}, "memory_by_size_mib": {"8": 2.5}}}',
        '{"t": 70.5, "size": 64, "family": 1, "steps": 3}',
        '{"t": 71.0, "size": 6',
    ]
    result = read_text("\n".join(lines))
    steps = steps_of(result)
    assert steps.size.tolist() == [8, 64]
    assert [steps.origin_of(family) for family in steps.families] == ["sample", "census"]
    assert (steps.sample_every_steps, steps.start_s.tolist()) == (40, [0, 60])
    assert result.rows.dropped == {"unreadable line": 1}
    assert any("1 gaps of 60 s" in note and "the log was cut" in note for note in result.notes)
    assert result.observation is not None
    assert result.observation.lists == {"decode": (1, 2)}
    assert result.observation.memory_by_size_mib == {8: 2.5}


def test_free_memory_between_captures_is_what_a_size_costs(tmp_path: Path) -> None:
    path = tmp_path / "start.log"
    path.write_text(
        "[2026-01-01 10:00:00] Capture target decode CUDA graph begin. backend=full, bs=[1, 8, 12], avail mem=7.50 GB\n"
        "\rCapturing batches (bs=12 avail_mem=7.50 GB): 0%|\rCapturing batches (bs=12 avail_mem=7.50 GB): 1%|"
        "\rCapturing batches (bs=8 avail_mem=7.25 GB): 33%|\rCapturing batches (bs=1 avail_mem=7.00 GB): 66%|\n"
        "[2026-01-01 10:00:01] Capture target decode CUDA graph end. elapsed=0.89 s, mem usage=0.75 GB, "
        "avail mem=6.75 GB.\n"
        "\rCapturing batches (bs=12 avail_mem=6.75 GB): 0%|\n"
    )
    seen = observe_file(path, "sglang")
    assert seen.memory_by_size_mib == {12: 256.0, 8: 256.0, 1: 256.0}
    assert seen.lists == {"decode": (1, 8, 12)}
    with pytest.raises(BadUsage, match="tgi"):
        observe_file(path, "tgi")


def test_dp_attention_without_forward_numbers_is_told_by_the_clock(read_text: Read) -> None:
    lines = ["[2026-01-01 10:00:00] server_args=ServerArgs(tp_size=2, dp_size=2, enable_dp_attention=True)"]
    for second, sizes in enumerate(((5, 9), (7, 2))):
        lines += [
            f"[2026-01-01 10:00:0{second} DP{r} TP{r}] Decode batch, #running-req: {n}, #token: 9"
            for r, n in enumerate(sizes)
        ]
    result = read_text("\n".join(lines))
    assert steps_of(result).size.tolist() == [9, 7]
    assert result.rows.dropped == {"smaller DP rank of the same step": 2}


def test_prefill_times_come_from_the_next_prefill_line_while_requests_wait(read_text: Read) -> None:
    def line(second: int, tokens: int, queued: int, rate: float) -> str:
        return (
            f"[2026-01-01 10:00:0{second}] Prefill batch, #new-seq: 1, #new-token: {tokens}, #queue-req: {queued}, "
            f"input throughput (token/s): {rate}"
        )

    steps = steps_of(read_text("\n".join([line(1, 4096, 3, 5.0), line(2, 2048, 0, 40960.0), line(3, 100, 0, 1.0)])))
    np.testing.assert_allclose(steps.step_ms, [100.0, np.nan, np.nan])
