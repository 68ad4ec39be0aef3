"""vLLM logs: graph tables, iteration lines, the periodic line, and what they say of the engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from workloads.traces.records import ReadResult, StepTrace

Read = Callable[..., ReadResult]

PREFIXES = {
    "2023": "INFO 02-28 21:48:18 metrics.py:161] ",
    "2025": "INFO 04-10 03:44:38 [loggers.py:87] ",
    "API server": "(APIServer pid=1) INFO 12-02 16:51:04 [compilation/cuda_graph.py:108] ",
    "several API servers": "(ApiServer_0 pid=1) INFO 12-02 16:51:04 [loggers.py:271] ",
    "engine core": "(EngineCore_DP0 pid=1) INFO 12-02 16:51:04 [core.py:1] ",
    "container": "2025-12-02T16:51:04.123456Z (APIServer pid=1) INFO 12-02 16:51:04 [loggers.py:271] ",
}
TABLE = """**CUDAGraph Config Settings:**

- Mode: FULL_AND_PIECEWISE
- Capture sizes: [1, 2, 4, 8, 16]

**CUDAGraph Stats:**

| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |
|-----------------|---------------|--------------|--------------|-------|
| 13              | 16            | 3            | FULL         | 412   |
| 9               | 16            | 7            | PIECEWISE    | 20    |
| 700             | 700           | 0            | NONE         | 9     |
"""
V1_LINE = (
    "Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 44.9 tokens/s, Running: {n} reqs, "
    "Waiting: 3 reqs, GPU KV cache usage: 50.0%, Prefix cache hit rate: 0.0%"
)


def steps_of(result: ReadResult) -> StepTrace:
    assert isinstance(result.traffic, StepTrace)
    return result.traffic


def prefixed(text: str, prefix: str) -> str:
    return "".join(prefix + line + "\n" for line in text.splitlines())


def iteration(number: int, context: int, generation: int, ms: float, tail: str = "") -> str:
    return (
        f"Iteration({number}): {min(context, 1)} context requests, {context} context tokens, {generation} generation "
        f"requests, {generation} generation tokens, iteration elapsed time: {ms} ms{tail}"
    )


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_graph_table_is_read_behind_every_prefix(read_text: Read, prefix: str) -> None:
    result = read_text(prefixed(TABLE, PREFIXES[prefix]))
    steps = steps_of(result)
    assert (result.format, result.rows.read, result.rows.kept) == ("vllm-cudagraph-metrics", 3, 3)
    assert steps.origin == "census"
    assert steps.total_steps == 441
    assert [steps.families[i] for i in steps.family_index] == ["decode_full", "decode_piecewise", "decode_piecewise"]
    assert steps.units == ("tokens", "tokens")
    assert steps.size.tolist() == [13, 9, 700]
    assert steps.padded_size.tolist() == [16, 16, 0]
    assert steps.fallback.tolist() == [0, 0, 1]
    assert steps.histogram("decode_full").counts() == {13: 412.0}
    assert result.observation is not None
    assert result.observation.lists == {"capture": (1, 2, 4, 8, 16)}
    assert result.observation.options["cudagraph_mode"] == "FULL_AND_PIECEWISE"


def test_tables_of_several_intervals_add_up_and_torn_rows_are_counted(read_text: Read) -> None:
    later = PREFIXES["API server"].replace("16:51:04", "16:51:14")
    torn = later + "| 13              | 16            | 3            | FULL         | 4\n"
    result = read_text(prefixed(TABLE, PREFIXES["API server"]) + prefixed(TABLE, later) + torn)
    assert result.rows.read == 7
    assert result.rows.dropped == {"unreadable line": 1}
    assert steps_of(result).total_steps == 882
    assert steps_of(result).span_s == 10.0


@pytest.mark.parametrize("prefix", ["2025", "API server", "engine core", "container"])
@pytest.mark.parametrize("engine", ["", "Engine 000: "])
def test_iteration_lines_give_size_and_time_of_every_step(read_text: Read, prefix: str, engine: str) -> None:
    tail = ", GPU KV cache usage: 3.1%" if engine else ""
    lines = [
        iteration(17, 512, 31, 12.34, tail),
        iteration(18, 0, 32, 6.5, tail),
        iteration(19, 0, 1, 5.0, " (dummy)"),
        iteration(20, 0, 0, 1.0),
        "Iteration(21): 0 context requests, 0 context tok",
    ]
    result = read_text(prefixed("\n".join(engine + line for line in lines), PREFIXES[prefix]))
    steps = steps_of(result)
    assert result.format == "vllm-iterations"
    assert result.rows.dropped == {"dummy": 1, "empty step": 1, "unreadable line": 1}
    assert [steps.families[i] for i in steps.family_index] == ["decode_piecewise", "decode_full"]
    assert steps.size.tolist() == [543, 32]
    assert steps.step_ms.tolist() == [12.34, 6.5]
    assert (steps.origin, steps.padded_size.tolist(), steps.fallback.tolist()) == ("census", [0, 0], [-1, -1])


PERIODIC = {
    "V0 2023": (
        "Throughput: 310.1 tokens/s, Running: {n} reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 50.0%, "
        "CPU KV cache usage: 0.0%"
    ),
    "V0 2024": (
        "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 44.9 tokens/s, Running: {n} reqs, "
        "Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 50.0%, CPU KV cache usage: 0.0%."
    ),
    "V1 Jan 2025": (
        "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 44.9 tokens/s, Running: {n} reqs, "
        "Waiting: 3 reqs GPU KV cache usage: 50.0%."
    ),
    "V1 Mar 2025": V1_LINE,
    "2026": (
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 44.9 tokens/s, Running: {n} reqs, "
        "Waiting: 3 reqs, Deferred: 2 reqs, Preemptions: 4, XPU KV cache usage: 50.0%, KV fetch: 1 waiting to start, 2 "
        "in progress, 0 completed waiting, External prefix cache hit rate: 1.2%, MM cache hit rate: 50.0%"
    ),
}


@pytest.mark.parametrize("version", PERIODIC)
def test_the_periodic_line_of_every_release_is_a_sample(read_text: Read, version: str) -> None:
    cache = "INFO 04-10 03:40:00 [kv_cache_utils.py:1] GPU KV cache size: 547,824 tokens\n"
    lines = "\n".join(PERIODIC[version].format(n=n) for n in (12, 0, 40))
    result = read_text(cache + prefixed(lines, PREFIXES["2025"]))
    steps = steps_of(result)
    assert (result.format, steps.origin, steps.size.tolist()) == ("vllm-stats", "sample", [12, 40])
    assert result.rows.dropped == {"idle": 1}
    np.testing.assert_allclose(steps.kv_tokens, 547_824 / 2)
    assert any("snapshot" in note for note in result.notes)


def test_sums_over_engines_and_other_engines_are_left_out(read_text: Read) -> None:
    lines = [
        V1_LINE.format(n=10),
        V1_LINE.format(n=20).replace("000", "001"),
        V1_LINE.format(n=11),
        V1_LINE.format(n=41).replace("Engine 000", "2 Engines Aggregated"),
    ]
    result = read_text(prefixed("\n".join(lines), PREFIXES["API server"]))
    assert steps_of(result).size.tolist() == [10, 11]
    assert result.rows.dropped == {"other engine": 1, "sum over engines": 1}


def test_the_source_that_says_most_is_taken(read_text: Read) -> None:
    stats = prefixed(V1_LINE.format(n=5), PREFIXES["API server"])
    table = prefixed(TABLE, PREFIXES["API server"])
    iterations = prefixed("Engine 000: " + iteration(1, 0, 5, 6.0), PREFIXES["API server"])
    assert read_text(stats + table).format == "vllm-cudagraph-metrics"
    assert read_text(stats + table + iterations).format == "vllm-iterations"
    assert read_text(stats + table + iterations, format="vllm-stats").rows.read == 1


def test_steps_are_found_behind_long_start_up_output(read_text: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.traces.source.BLOCK_BYTES", 2000)
    noise = "INFO 04-10 03:44:38 [gpu_worker.py:1] loading weights, shard 1, of 2\n" * 500
    result = read_text(noise + prefixed(TABLE, PREFIXES["API server"]))
    assert result.format == "vllm-cudagraph-metrics"
    assert result.rows.kept == 3


def test_the_clock_has_no_year_and_goes_over_new_year(read_text: Read) -> None:
    lines = [
        f"INFO {clock} [loggers.py:1] " + V1_LINE.format(n=5)
        for clock in ("12-31 23:59:50", "01-01 00:00:00", "01-01 00:00:10")
    ]
    assert steps_of(read_text("\n".join(lines))).start_s.tolist() == [0, 10, 20]


def test_start_up_lines_say_what_the_engine_is(read_text: Read) -> None:
    lines = [
        "(APIServer pid=1) INFO 04-10 03:44:00 [api_server.py:1] vLLM API server version 0.33.0",
        "(APIServer pid=1) INFO 04-10 03:44:00 [utils.py:1] non-default args: {'model': 'm', 'max_num_seqs': 128, "
        "'max_num_batched_tokens': 4096, 'cudagraph_metrics': True}",
        "(EngineCore_DP0 pid=2) INFO 04-10 03:44:20 [kv_cache_utils.py:1] GPU KV cache size: 547,824 tokens",
        "(EngineCore_DP0 pid=2) INFO 04-10 03:44:21 [gpu_model_runner.py:1] Graph capturing finished in 2 secs, took "
        "0.11 GiB",
        "(EngineCore_DP0 pid=2) INFO 04-10 03:44:29 [gpu_model_runner.py:1] Graph capturing finished in 12 secs, took "
        "0.50 GiB",
        "(EngineCore_DP0 pid=2) INFO 04-10 03:44:30 [core.py:306] init engine (profile, create kv cache, warmup model) "
        "took 15.08 s (compilation: 11.44 s)",
        prefixed(TABLE, PREFIXES["API server"]),
    ]
    seen = read_text("\n".join(lines)).observation
    assert seen is not None
    assert (seen.engine, seen.version, seen.kv_tokens) == ("vllm", "0.33.0", 547_824)
    assert (seen.capture_s, seen.graph_memory_mib, seen.setup_s) == (12.0, 512.0, 3.64)
    assert seen.options["max_num_seqs"] == "128"
    assert seen.options["max_num_batched_tokens"] == "4096"


def test_progress_bars_tell_how_long_recording_took(read_text: Read) -> None:
    """Of every kind the last whole bar counts: an engine captures for its memory profile first."""
    bar = "Capturing CUDA graphs ({kind}): {share}|{blocks}| {done}/17 [00:00<00:00, {rate}]"
    bars = [
        bar.format(kind="FULL", share="100%", blocks="█" * 10, done=17, rate="17.00it/s"),
        bar.format(kind="PIECEWISE", share=" 18%", blocks="█▊        ", done=3, rate="24.57it/s"),
        bar.format(kind="PIECEWISE", share="100%", blocks="█" * 10, done=17, rate="25.06it/s"),
        bar.format(kind="FULL", share="100%", blocks="█" * 10, done=17, rate="38.86it/s"),
        bar.format(kind="FULL", share="100%", blocks="█" * 10, done=17, rate="1.50s/it"),
    ]
    told = "INFO 04-10 03:44:00 [core.py:1] Initializing a V1 LLM engine (v0.23.0) with config: model='m'\n"
    steps = prefixed(V1_LINE.format(n=5), PREFIXES["2025"])
    seen = read_text(told + "\r".join(bars[:4]) + "\n" + steps).observation
    assert seen is not None and seen.recording_s == pytest.approx(17 / 25.06 + 17 / 38.86, abs=1e-3)
    slow = read_text(told + "\n".join(bars) + "\n" + steps).observation
    assert slow is not None and slow.recording_s == pytest.approx(17 / 25.06 + 25.5, abs=1e-3)
    none = read_text(told + bars[1] + "\n" + steps).observation
    assert none is not None and none.recording_s is None


def test_the_list_of_the_engine_configuration_serves_where_no_table_is(read_text: Read) -> None:
    config = (
        "INFO 04-10 03:44:00 [core.py:1] Initializing a V1 LLM engine (v0.11.0) with config: model='m', "
        'compilation_config={"cudagraph_mode":[2,1],"cudagraph_capture_sizes":[512,256,8,4,2,1]}\n'
    )
    seen = read_text(config + prefixed(V1_LINE.format(n=5), PREFIXES["2025"])).observation
    assert seen is not None
    assert (seen.version, seen.lists) == ("0.11.0", {"capture": (1, 2, 4, 8, 256, 512)})


def test_the_periodic_line_tells_a_step_time_only_of_a_batch_that_stayed(read_text: Read) -> None:
    line = (
        "Engine 000: Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {rate} tokens/s, "
        "Running: {n} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%"
    )
    shown = [(0.0, 400.0, 8), (0.0, 800.0, 8), (5.0, 800.0, 8), (0.0, 800.0, 9), (0.0, 0.0, 9), (0.0, 900.0, 9)]
    lines = [line.format(prompt=prompt, rate=rate, n=n) for prompt, rate, n in shown]
    steps = steps_of(read_text(prefixed("\n".join(lines), PREFIXES["2025"])))
    np.testing.assert_allclose(steps.step_ms, [np.nan, 10.0, np.nan, np.nan, np.nan, 10.0])
    assert (steps.units[0], steps.sample_every_s) == ("requests", None)


def test_a_log_of_several_engines_says_that_table_rows_may_be_of_any(read_text: Read) -> None:
    other = prefixed(V1_LINE.format(n=5).replace("000", "001"), PREFIXES["API server"])
    result = read_text(prefixed(TABLE, PREFIXES["API server"]) + other)
    assert any("several engines" in note for note in result.notes)
