"""SGLang logs of every release, ranks, evidence and what they say of the engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from workloads.errors import BadInput
from workloads.traces.records import ReadResult, StepTrace

Read = Callable[..., ReadResult]

# (line, running requests, KV tokens or nan, fallback)
DECODE_LINES = {
    "0.1.x": (
        "[gpu_id=0] Decode batch. #running-req: 7, #token: 812, token usage: 0.01, gen throughput (token/s): 310.22, "
        "#queue-req: 0",
        (7, 812, -1),
    ),
    "0.2.15": (
        "[12:04:31 TP0] Decode batch. #running-req: 8, #token: 900, token usage: 0.01, gen throughput (token/s): 1.0",
        (8, 900, -1),
    ),
    "0.3.6": ("[2024-12-01 12:04:31 TP0] Decode batch. #running-req: 9, #token: 5, token usage: 0.01", (9, 5, -1)),
    "0.4.1": (
        "[2024-12-01 12:04:31 TP0] Decode batch. #running-req: 4, #token: 5, token usage: 0.05, accept len: 2.54, "
        "gen throughput (token/s): 84.2, #queue-req: 0",
        (4, 5, -1),
    ),
    "0.4.3": (
        "[2025-02-01 12:04:31 TP0] Decode batch. #running-req: 20, #token: 5, token usage: 0.05, "
        "gen throughput (token/s): 39.33, largest-len: 0, #queue-req: 68, ",
        (20, 5, -1),
    ),
    "0.4.6": (
        "[2025-05-01 12:04:31] Decode batch. #running-req: 3, #token: 77, token usage: 0.05, cuda graph: True, "
        "gen throughput (token/s): 84.20, #queue-req: 0",
        (3, 77, 0),
    ),
    "0.4.6 PD decode": (
        "[2025-05-01 12:04:31 DP0 TP0] Decode batch. #running-req: 5, #token: 77, token usage: 0.05, "
        "pre-allocated usage: 0.10, #retracted-req: 0, cuda graph: False, gen throughput (token/s): 84.20",
        (5, 77, 1),
    ),
    "0.4.10 hybrid": (
        "[2025-08-01 12:04:31 TP0] Decode batch. #running-req: 6, #full token: 1000, full token usage: 0.10, "
        "#swa token: 300, swa token usage: 0.02, cuda graph: True, gen throughput (token/s): 84.20, #queue-req: 0, ",
        (6, 1000, 0),
    ),
    "0.5.3 mamba": (
        "[2025-10-01 12:04:31 TP0] Decode batch. #running-req: 11, #token: 7, token usage: 0.05, mamba num: 11, "
        "mamba usage: 0.10, accept len: 2.50, accept rate: 0.63, cpu graph: True, gen throughput (token/s): 84.20, "
        "#queue-req: 0, #prealloc-req: 0, #transfer-req: 0, ",
        (11, 7, 0),
    ),
    "0.5.5": (
        "[2025-11-11 04:06:27] Decode batch, #running-req: 46, #token: 812, token usage: 0.01, cuda graph: True, "
        "gen throughput (token/s): 1635.11, #queue-req: 0, ",
        (46, 812, 0),
    ),
    "0.5.5 forward iters": (
        "[2025-11-11 04:06:27] Decode batch [1234], #running-req: 47, #token: 812, token usage: 0.01, cuda graph: True",
        (47, 812, 0),
    ),
    "0.5.6 milliseconds": (
        "[2025-11-11 04:06:27.123 TP0] Decode batch, #running-req: 48, #token: 812, npu graph: False",
        (48, 812, 1),
    ),
    "0.5.10": (
        "[2026-03-11 04:06:27 TP0 EP0] Decode batch, #running-req: 49, #token: 812, token usage: 0.01, "
        "cuda graph: True, gen throughput (token/s): 1635.11, #queue-req: 0, est. decode TFLOPS/s (per GPU): 3.1",
        (49, 812, 0),
    ),
    "0.5.23": (
        "[2026-10-30 12:00:00 DP0 PP0 ATTN_CP0 MOE_DP0 TP0 EP0] Decode batch, #running-req: 67, #token: 48213, "
        "token usage: 0.02, cap len: 3, block accept len: 2.0, musa graph: False, gen throughput (token/s): 5452.63, "
        "#queue-req: 0, #host-receive-req: 0, fwd occupancy: 97.10%",
        (67, 48213, 1),
    ),
    "HiSparse": (
        "[2026-10-30 12:00:00] Decode batch, #running-req: 66, #gpu token: 5, #cpu token: 6, cuda graph: True",
        (66, np.nan, 0),
    ),
    "Ray": (
        "(SGLangEngine pid=1, ip=10.0.0.1) [2025-11-11 04:06:27 TP0] Decode batch, #running-req: 12, #token: 8",
        (12, 8, -1),
    ),
    "custom formatter": (
        "2025-12-04 20:35:53 INFO 1 [scheduler_metrics_mixin.py:287] Decode batch. #running-req: 13, #token: 8, "
        "cuda graph: True, gen throughput (token/s): 1.0, #queue-req: 0, ",
        (13, 8, 0),
    ),
    "container and file name": (
        "worker-0.log:2025-11-11T04:06:26.99Z [2025-11-11 04:06:27 TP0] Decode batch, #running-req: 14, #token: 8",
        (14, 8, -1),
    ),
    "sglang-jax": (
        "[2025-11-11 04:06:27] Decode batch. #running-req: 15, #token: 8, #queue-req: 0, #cache_miss: 1",
        (15, 8, -1),
    ),
}
PREFILL_LINES = {
    "0.1.17": "[gpu_id=0] Prefil batch. #new-seq: 1, #new-token: 640, #cached-token: 0, #running-req: 5",
    "0.3.0 mixed": "[12:04:31 TP0] Prefill batch(mixed #running-req: 3). #new-seq: 2, #new-token: 640, #running-req: 3",
    "0.3.6": "[2024-12-01 12:04:31 TP0] Prefill batch. #new-seq: 2, #new-token: 640, cache hit rate: 12.30%",
    "0.5.5 iters": "[2025-11-11 04:06:27] Prefill batch [77], #new-seq: 2, #new-token: 640, #cached-token: 9",
    "0.5.23": (
        "[2026-10-30 12:00:00 TP0] Prefill batch, #new-seq: 3, #new-token: 640, #cached-token: 512, token usage: 0.01, "
        "#running-req: 12, #queue-req: 5, #pending-token: 4096, cuda graph: True, input throughput (token/s): 21034.11"
    ),
}


def steps_of(result: ReadResult) -> StepTrace:
    assert isinstance(result.traffic, StepTrace)
    return result.traffic


def decode(second: int, running: int, *, rank: str = "TP0", more: str = "", iteration: str = "") -> str:
    return (
        f"[2026-01-01 10:00:{second:02d} {rank}] Decode batch{iteration}, #running-req: {running}, #token: 100, "
        f"token usage: 0.01, {more}#queue-req: 0"
    )


def prefill(second: int, tokens: int, *, rank: str = "TP0") -> str:
    return f"[2026-01-01 10:00:{second:02d} {rank}] Prefill batch, #new-seq: 1, #new-token: {tokens}, #running-req: 9"


@pytest.mark.parametrize("version", DECODE_LINES)
def test_the_decode_line_of_every_release_is_read(read_text: Read, version: str) -> None:
    line, (running, kv_tokens, fallback) = DECODE_LINES[version]
    result = read_text(line + "\n")
    steps = steps_of(result)
    assert (result.format, result.rows.read, result.rows.kept) == ("sglang-log", 1, 1)
    assert steps.size.tolist() == [running]
    assert steps.fallback.tolist() == [fallback]
    np.testing.assert_array_equal(steps.kv_tokens, [kv_tokens])
    assert steps.families[steps.family_index[0]] == "decode_full"
    assert (steps.origin, steps.steps.tolist(), steps.padded_size.tolist()) == ("sample", [1], [0])
    assert np.isfinite(steps.start_s[0]) == (version != "0.1.x")


@pytest.mark.parametrize("version", PREFILL_LINES)
def test_the_prefill_line_of_every_release_is_read(read_text: Read, version: str) -> None:
    steps = steps_of(read_text(PREFILL_LINES[version] + "\n"))
    histogram = steps.histogram("prefill_breakable")
    assert (histogram.unit, histogram.counts()) == ("tokens", {640: 1.0})


def test_all_releases_in_one_file_add_up(read_text: Read) -> None:
    lines = [line for line, _ in DECODE_LINES.values()] + list(PREFILL_LINES.values())
    noise = ["INFO: 127.0.0.1 - POST /generate 200", "token_to_kv_pool #running-req: 5 leak check", "#running-req=3"]
    result = read_text("\n".join(lines + noise))
    assert result.rows.read == len(lines)
    assert result.rows.kept + sum(result.rows.dropped.values()) == len(lines)


def test_tensor_parallel_ranks_print_one_step_and_count_once(read_text: Read) -> None:
    lines = [decode(i, 8 + i, rank=f"TP{rank}") for i in range(3) for rank in (1, 0, 3, 2)]
    result = read_text("\n".join(lines))
    assert steps_of(result).size.tolist() == [8, 9, 10]
    assert result.rows.dropped == {"other TP rank": 9}


def test_data_parallel_ranks_are_never_summed(read_text: Read) -> None:
    lines = [decode(1, 10, rank="DP0 TP0"), decode(1, 30, rank="DP1 TP1"), decode(2, 11, rank="DP1 TP1")]
    result = read_text("\n".join(lines))
    assert steps_of(result).size.tolist() == [30, 11]
    assert result.rows.dropped == {"other engine": 1}
    assert any("DP1" in note for note in result.notes)


def test_under_dp_attention_the_largest_rank_of_a_step_picks_the_graph(read_text: Read) -> None:
    lines = ["[2026-01-01 10:00:00] server_args=ServerArgs(tp_size=2, dp_size=2, enable_dp_attention=True)"]
    for step, sizes in enumerate(((5, 9), (7, 2), (4, 4))):
        lines += [decode(step, size, rank=f"DP{r} TP{r}", iteration=f" [{step + 50}]") for r, size in enumerate(sizes)]
    result = read_text("\n".join(lines))
    assert steps_of(result).size.tolist() == [9, 7, 4]
    assert steps_of(result).origin == "census"
    assert result.rows.dropped == {"smaller DP rank of the same step": 3}


def test_torn_lines_are_counted_not_fatal(read_text: Read) -> None:
    result = read_text(
        "\n".join([decode(1, 8), "[2026-01-01 10:00:01 TP0] Decode batch, #runn", decode(2, 8), decode(3, 0)])
    )
    assert result.rows.read == 4
    assert result.rows.dropped == {"unreadable line": 1, "empty batch": 1}
    assert result.rows.first_line == {"unreadable line": 2, "empty batch": 4}


def test_bytes_that_are_not_utf8_do_not_stop_a_log(read_text: Read) -> None:
    result = read_text(decode(1, 8).encode() + b"\n\xff\xfe torn\n" + decode(2, 9).encode())
    assert steps_of(result).size.tolist() == [8, 9]


def test_step_time_comes_from_throughput_between_steady_decode_lines(read_text: Read) -> None:
    rate = "gen throughput (token/s): 1635.00, "
    lines = [
        decode(1, 32, more=rate),  # what came before is unknown
        decode(2, 32, more=rate),  # steady: 32 / 1635
        prefill(3, 512),
        decode(4, 32, more=rate),  # a prefill intervened
        decode(5, 32, more="accept len: 2.50, " + rate),  # every step makes 2.5 tokens a request
        decode(6, 8, more=rate),  # the batch collapsed meanwhile
        decode(7, 8, more="gen throughput (token/s): 0.00, "),
    ]
    steps = steps_of(read_text("\n".join(lines)))
    expected = [np.nan, 32 / 1.635, np.nan, np.nan, 2.5 * 32 / 1.635, np.nan, np.nan]
    np.testing.assert_allclose(steps.step_ms, expected)
    assert steps.start_s.tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_consecutive_forward_numbers_are_a_census(read_text: Read) -> None:
    steps = steps_of(read_text("\n".join(decode(i, 5, iteration=f" [{100 + i}]") for i in range(9))))
    assert (steps.origin, steps.sample_every_steps) == ("census", None)
    steps = steps_of(read_text("\n".join(decode(i, 5, iteration=f" [{100 + 20 * i}]") for i in range(9))))
    assert (steps.origin, steps.sample_every_steps) == ("sample", 20)


@pytest.mark.parametrize(("interval", "origin", "every"), [(1, "census", None), (10, "sample", 10)])
def test_the_log_interval_of_the_arguments_is_used(
    read_text: Read, interval: int, origin: str, every: int | None
) -> None:
    head = f"[2026-01-01 09:59:00] server_args=ServerArgs(model_path='m', decode_log_interval={interval}, tp_size=1)\n"
    steps = steps_of(read_text(head + decode(1, 5) + "\n" + decode(2, 6)))
    assert (steps.origin, steps.sample_every_steps) == (origin, every)


def test_without_a_word_one_line_stands_for_forty_steps(read_text: Read) -> None:
    result = read_text(decode(1, 5) + "\n" + prefill(2, 64) + "\n")
    assert (steps_of(result).origin, steps_of(result).sample_every_steps) == ("sample", 40)
    assert any("one step in 40" in note for note in result.notes)


def test_a_clock_without_date_goes_over_midnight(read_text: Read) -> None:
    lines = [
        f"[{clock} TP0] Decode batch. #running-req: 5, #token: 9" for clock in ("23:59:58", "00:00:01", "00:00:03")
    ]
    assert steps_of(read_text("\n".join(lines))).start_s.tolist() == [0, 3, 5]


def test_start_up_lines_to_0_5_13_say_what_was_captured(read_text: Read) -> None:
    lines = [
        "[2025-11-11 04:00:00] server_args=ServerArgs(model_path='m', tp_size=2, max_running_requests=None, "
        "cuda_graph_max_bs=8, cuda_graph_bs=[1, 2, 4], mem_fraction_static=0.8, speculative_algorithm=None)",
        "[2025-11-11 04:00:01 TP0] Capture cuda graph bs [1, 2, 4, 8]",
        "[2025-11-11 04:00:02 TP1] Capture cuda graph end. Time elapsed: 12.90 s. mem usage=1.50 GB. avail mem=8.0 GB.",
        "[2025-11-11 04:00:02 TP0] Capture cuda graph end. Time elapsed: 12.30 s. mem usage=1.20 GB. avail mem=8.0 GB.",
        "[2025-11-11 04:00:03 TP0] Capture draft cuda graph end. Time elapsed: 2.00 s. mem usage=0.30 GB.",
        "[2025-11-11 04:00:04 TP0] max_total_num_tokens=2261377, chunked_prefill_size=16384, "
        "max_prefill_tokens=16384, max_running_requests=4096, context_len=128000, available_gpu_mem=37.06 GB",
        decode(5, 5),
    ]
    seen = read_text("\n".join(lines)).observation
    assert seen is not None
    assert (seen.engine, seen.lists, seen.kv_tokens) == ("sglang", {"decode": (1, 2, 4, 8)}, 2261377)
    assert seen.capture_s == pytest.approx(14.3)
    assert seen.graph_memory_mib == pytest.approx(1.5 * 1024)
    assert seen.options["max_running_requests"] == "4096"
    assert seen.options["cuda_graph_max_bs"] == "8"
    assert "speculative_algorithm" not in seen.options


@pytest.mark.parametrize("on_end", [False, True])
def test_start_up_lines_since_0_5_14_say_what_was_captured(read_text: Read, on_end: bool) -> None:
    sizes = "bs=[1, 2, 4, 8, 12], "
    begin, end = ("", sizes) if on_end else (sizes, "")
    lines = [
        "Capture target prefill CUDA graph begin. backend=breakable, num_tokens=[4, 8, 16], avail mem=9.00 GB",
        "Capture target prefill CUDA graph end. elapsed=2.00 s, mem usage=0.50 GB, avail mem=8.00 GB.",
        f"Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, {begin}avail mem=7.10 GB",
        "Capturing batches (bs=12 avail_mem=7.10 GB): 0%|\rCapturing batches (bs=8 avail_mem=7.00 GB): 20%|",
        f"Capture target decode CUDA graph end. {end}elapsed=0.89 s, mem usage=0.15 GB, avail mem=6.95 GB.",
    ]
    seen = read_text("\n".join([*lines, decode(5, 5)])).observation
    assert seen is not None
    assert seen.lists == {"decode": (1, 2, 4, 8, 12), "prefill": (4, 8, 16)}
    assert seen.capture_s == pytest.approx(2.89)
    assert seen.graph_memory_mib == pytest.approx(0.65 * 1024)


def test_the_configured_list_and_the_progress_bar_serve_where_nothing_better_is_there(read_text: Read) -> None:
    config = (
        "server_args=ServerArgs(x=1) cuda_graph_config=CudaGraphConfig(decode=PhaseConfig(backend='full', max_bs=256, "
        "bs=[1, 2, 256], x=1), prefill=PhaseConfig(backend='breakable', max_bs=64, bs=[4, 64]))\n"
    )
    seen = read_text(config + decode(1, 5)).observation
    assert seen is not None
    assert seen.lists == {"decode": (1, 2, 256), "prefill": (4, 64)}
    seen = read_text(
        "Capturing batches (bs=4 avail_mem=1 GB)\rCapturing batches (bs=2 avail_mem=1 GB)\n" + decode(1, 5)
    ).observation
    assert seen is not None
    assert seen.lists == {"decode": (2, 4)}


def test_a_log_without_step_lines_says_what_is_missing(read_text: Read) -> None:
    with pytest.raises(BadInput, match="no line of this log is a step"):
        read_text("[2025-11-11 04:00:01 TP0] Capture cuda graph bs [1, 2]\n", format="sglang-log")


def test_blocks_of_a_large_log_are_joined(read_text: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(decode(i % 60, 1 + i % 7) for i in range(500))
    whole = read_text(text)
    monkeypatch.setattr("workloads.traces.source.BLOCK_BYTES", 1000)
    assert read_text(text).traffic.digest() == whole.traffic.digest()
