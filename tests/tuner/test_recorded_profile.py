"""Step times that an engine reported become a profile of that engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from services.cli.recorded import RecordedLog, profile_of
from tuner.profile_file import dump_profile, parse_profile
from tuner.recorded_profile import RecordedProfile
from tuner.recorded_readings import attention_fit, centre, weighted_median
from workloads.errors import BadInput

CONFIG = (
    "(EngineCore_DP0 pid=1) INFO 01-02 09:00:00 [core.py:1] Initializing a V1 LLM engine (v0.33.0) with config: "
    "model='m', compilation_config={\"cudagraph_capture_sizes\":[1,2,4,8,16]}, max_num_seqs=64, "
    "max_num_batched_tokens=2048\n"
)


def iteration(n: int, size: int, ms: float, context: int = 0) -> str:
    return (
        f"(EngineCore_DP0 pid=1) INFO 01-02 10:00:{n % 60:02d} [core.py:1] Iteration({n}): {int(context > 0)} context "
        f"requests, {context} context tokens, {size} generation requests, {size} generation tokens, "
        f"iteration elapsed time: {ms:.2f} ms\n"
    )


def recorded(tmp_path: Path, text: str, **asked: object) -> RecordedProfile:
    path = tmp_path / "engine.log"
    path.write_text(text)
    return profile_of(RecordedLog(path, **asked))  # type: ignore[arg-type]


def test_iteration_times_count_for_the_bucket_that_the_step_ran_in(tmp_path: Path) -> None:
    lines = [iteration(i, size, ms) for i in range(10) for size, ms in ((3, 7.0), (4, 7.2), (9, 8.0 + i / 100))]
    lines += [iteration(90 + i, 2, 6.0) for i in range(3)]
    lines += [iteration(100 + i, 40, 20.0) for i in range(6)]
    lines += [iteration(200 + i, 8, 33.0, context=500) for i in range(6)]
    found = recorded(tmp_path, CONFIG + "".join(lines))
    cost = found.profile.family("decode_full")
    assert cost.unit == "tokens"
    assert cost.sizes.tolist() == [4, 16, 40]
    np.testing.assert_allclose(cost.step_ms, [7.1, 8.045, 20.0])
    np.testing.assert_array_equal(cost.fallback_ms, [np.nan, np.nan, 20.0])
    assert 0 < cost.spread_ms[1] < 0.1
    assert found.coverage.too_few == {2: 3}
    assert found.coverage.eager_only == (40, 508)
    assert found.profile.prefill is not None
    assert found.profile.prefill.tokens.tolist() == [508]
    software = found.profile.software
    assert software is not None
    assert software["engine"] == "vllm@0.33.0"
    assert software["recorded_from_log"]["format"] == "vllm-iterations"  # type: ignore[index]
    again = parse_profile(dump_profile(found.profile))
    np.testing.assert_array_equal(again.family("decode_full").step_ms, cost.step_ms)
    assert again.software == software


def test_sglang_throughput_gives_step_times_with_speculation_accounted_for(tmp_path: Path) -> None:
    head = "[2026-01-01 09:00:00 TP0] Capture cuda graph bs [1, 2, 4, 8, 16]\n"
    lines = [
        f"[2026-01-01 10:00:{i:02d} TP0] Decode batch, #running-req: 7, #token: 700, accept len: 2.00, "
        "cuda graph: True, gen throughput (token/s): 1400.00, #queue-req: 0\n"
        for i in range(7)
    ]
    found = recorded(tmp_path, head + "".join(lines), device="NVIDIA H200")
    cost = found.profile.family("decode_full")
    assert (cost.sizes.tolist(), cost.step_ms.tolist(), cost.unit) == ([8], [10.0], "requests")
    assert found.profile.device == {"name": "NVIDIA H200"}
    assert found.coverage.step_share == 1.0
    assert any("sample" in note for note in found.notes)


def test_batch_size_times_serve_where_the_log_is_recognised_by_another_line(tmp_path: Path) -> None:
    stats = (
        "INFO 01-02 10:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 5.0 tokens/s, "
        "Avg generation throughput: 44.9 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n"
    )
    times = (
        "INFO 01-02 10:00:09 [forward_context.py:1] Batchsize forward time stats (batchsize, count, median_time(ms)): "
        "[(16, 512, 9.81), (8, 20, 9.1), (4, 2, 9.0)]\n"
    )
    cost = recorded(tmp_path, CONFIG + stats + times).profile.family("decode_full")
    assert (cost.sizes.tolist(), cost.step_ms.tolist()) == ([8, 16], [9.1, 9.81])


def test_without_a_list_every_size_keeps_its_own_time_and_that_is_said(tmp_path: Path) -> None:
    found = recorded(tmp_path, "".join(iteration(i, 5, 7.0) for i in range(6)))
    assert found.profile.family("decode_full").sizes.tolist() == [5]
    assert any("--sizes" in note for note in found.notes)
    listed = recorded(tmp_path, "".join(iteration(i, 5, 7.0) for i in range(6)), sizes="1,8", engine="vllm@0.33.0")
    assert listed.profile.family("decode_full").sizes.tolist() == [8]


def test_too_few_readings_and_no_times_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no size has 5 readings"):
        recorded(tmp_path, iteration(1, 5, 7.0))
    with pytest.raises(BadInput, match="enable-logging-iteration-details"):
        recorded(tmp_path, "size,count\n4,10\n")


def test_the_attention_term_is_told_apart_from_the_bucket() -> None:
    rng = np.random.default_rng(1)
    bucket = rng.choice([8, 16], 400)
    kv = rng.uniform(1e4, 1e6, 400)
    ms = np.where(bucket == 8, 6.0, 7.0) + 1.5e-6 * kv + rng.normal(0, 0.01, 400)
    ones = np.ones(400, dtype=np.int64)
    assert attention_fit(bucket, ms, kv, ones).ms_per_mtoken == pytest.approx(1.5, rel=0.02)
    assert not attention_fit(bucket, rng.normal(7, 1, 400), kv, ones).known
    assert not attention_fit(bucket[:50], ms[:50], kv[:50], ones[:50]).known


def test_medians_are_weighted_and_the_spread_is_that_of_parts() -> None:
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1, 1, 5])) == 2.0
    assert weighted_median(np.array([1.0, 3.0]), np.array([2, 2])) == 2.0
    drift = np.concatenate([np.full(20, 5.0), np.full(20, 7.0)])
    assert centre(drift, np.ones(40, dtype=np.int64))[1] == pytest.approx(np.std([5] * 4 + [7] * 4, ddof=1))
    assert np.isnan(centre(drift[:3], np.ones(3, dtype=np.int64))[1])
