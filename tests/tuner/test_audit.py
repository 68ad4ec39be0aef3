"""`audit`: what an engine does today, from its own log, checked against counts made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.audit import Audit, audit, engine_of, options_of
from tuner.engines.registry import engine
from workloads.errors import BadUsage
from workloads.traces.read import read
from workloads.traces.records import EngineObservation, RequestTrace, StepTrace

SGLANG = engine("sglang@0.5.23")
VLLM = engine("vllm@0.33.0")

SGLANG_LOG = """\
[2026-10-30 11:59:00] server_args=ServerArgs(model_path='m', max_running_requests=4096, tp_size=1)
[2026-10-30 11:59:50] Capture target decode CUDA graph end. bs=[1, 2, 4, 8, 12, 16, 24, 32], elapsed=0.89 s, \
mem usage=0.15 GB, avail mem=6.95 GB.
[2026-10-30 12:00:00] Prefill batch, #new-seq: 3, #new-token: 2048, #cached-token: 0, token usage: 0.01, \
#running-req: 12, #queue-req: 5, cuda graph: True, input throughput (token/s): 21034.11
"""

VLLM_TABLE = """\
INFO 10-30 12:00:00 [x.py:1] Initializing a V1 LLM engine (v0.33.0) with config: max_num_seqs=100
INFO 10-30 12:00:10 [cuda_graph.py:110] **CUDAGraph Stats:** - Mode: FULL_AND_PIECEWISE - Capture sizes: \
[1, 2, 4, 8, 96, 104]
| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |
|-----------------|---------------|--------------|--------------|-------|
| 96              | 96            | 0            | FULL         | 500   |
| 97              | 104           | 7            | PIECEWISE    | 300   |
| 700             | 700           | 0            | NONE         | 200   |
"""


def decode_line(running: int, graph: bool) -> str:
    return (
        f"[2026-10-30 12:00:01] Decode batch, #running-req: {running}, #token: 48213, token usage: 0.02, "
        f"cuda graph: {graph}, gen throughput (token/s): 5452.63, #queue-req: 0\n"
    )


def audit_text(tmp_path: Path, text: str) -> Audit:
    file = tmp_path / "engine.log"
    file.write_text(text)
    result = read(file)
    assert result.observation is not None
    chosen = engine(engine_of(result.observation) or "vllm")
    return audit(result.traffic, result.observation, chosen, options_of(result.observation, chosen))


def steps(
    rows: Mapping[int, int],
    *,
    family: str = "decode_full",
    unit: str = "requests",
    padded: Mapping[int, int] | None = None,
    fallback: Mapping[int, int] | None = None,
    origin: str = "census",
) -> StepTrace:
    size = np.array(list(rows), dtype=np.int64)
    unknown = np.full(len(size), np.nan)
    return StepTrace(
        size=size,
        steps=np.array(list(rows.values()), dtype=np.int64),
        family_index=np.zeros(len(size), dtype=np.int8),
        start_s=unknown,
        step_ms=unknown.copy(),
        kv_tokens=unknown.copy(),
        padded_size=np.array([(padded or {}).get(int(s), 0) for s in size], dtype=np.int64),
        fallback=np.array([(fallback or {}).get(int(s), -1) for s in size], dtype=np.int8),
        families=(family,),
        units=(unit,),  # type: ignore[arg-type]
        origin=origin,  # type: ignore[arg-type]
    )


def codes(result: Audit) -> set[str]:
    return {warning.code for warning in result.warnings}


def test_case_1_a_log_past_the_last_bucket(tmp_path: Path) -> None:
    """sglang#33483: graphs to 32, running median 67."""
    lines = [decode_line(67, False)] * 6 + [decode_line(103, False)] * 2 + [decode_line(24, True)] * 2
    lines += [decode_line(30, True)] * 2
    result = audit_text(tmp_path, SGLANG_LOG + "".join(lines))
    assert result.engine.startswith("sglang@")
    assert result.present_lists["decode"] == (1, 2, 4, 8, 12, 16, 24, 32)
    assert result.present_options["max_running_requests"] == "4096"
    assert result.step_share == pytest.approx({"exact": 2 / 12, "padded": 2 / 12, "fallback": 8 / 12})
    assert result.above_ceiling == pytest.approx(8 / 12)
    assert result.never_used == (1, 2, 4, 8, 12, 16)
    executed = 6 * 67 + 2 * 103 + 2 * 24 + 2 * 32
    assert result.padding_waste == pytest.approx(2 * 2 / executed)
    assert {"EAGER_FEEDBACK", "SAMPLE_ONLY", "TOP_NOT_COVERED"} <= codes(result)
    assert "ABSENT_LIST" not in codes(result)
    # The prefill line is one of its own kind: it is logged at another rate and stays out of the headline.
    assert result.families["prefill_breakable"].steps == 1


def test_case_21_a_vllm_table_with_its_own_buckets(tmp_path: Path) -> None:
    result = audit_text(tmp_path, VLLM_TABLE)
    assert result.engine == "vllm@0.33.0"
    assert result.step_share == pytest.approx({"exact": 0.5, "padded": 0.3, "fallback": 0.2})
    assert result.above_ceiling == pytest.approx(0.2)
    assert result.never_used == (1, 2, 4, 8)
    assert result.padding_waste == pytest.approx(7 * 300 / (96 * 500 + 104 * 300 + 700 * 200))
    assert "TOP_FALLS_TO_PIECEWISE" in codes(result)
    feedback = next(warning.message for warning in result.warnings if warning.code == "EAGER_FEEDBACK")
    assert "which of them hold a prefill chunk" in feedback


def test_the_word_of_the_log_counts() -> None:
    trace = steps({3: 10, 4: 10, 5: 10}, fallback={3: 1, 4: 0, 5: 0}, padded={5: 16})
    result = audit(trace, None, SGLANG, SGLANG.options({}), {"decode": (4, 8)})
    assert result.step_share == pytest.approx({"exact": 1 / 3, "padded": 1 / 3, "fallback": 1 / 3})
    assert {"FALLBACK_BELOW_CEILING", "LOG_DISAGREES"} <= codes(result)
    assert result.never_used == (8,)
    assert result.padding_waste == pytest.approx(110 / (30 + 40 + 160))


def test_a_hit_whose_bucket_nobody_knows_is_still_a_hit() -> None:
    result = audit(steps({50: 1}, fallback={50: 0}), None, SGLANG, SGLANG.options({}), {"decode": (4, 8)})
    assert result.step_share["padded"] == 1
    assert result.padding_waste == 0
    assert "LOG_DISAGREES" in codes(result)


def test_without_a_list_the_default_is_assumed_and_said() -> None:
    result = audit(steps({3: 1}), None, SGLANG, SGLANG.options({"max_running_requests": "100"}))
    assert result.present_lists["decode"][-1] == 100
    assert "ABSENT_LIST" in codes(result)


def test_a_list_that_the_log_shows_was_captured_whatever_we_think_of_it() -> None:
    seen = EngineObservation(engine="sglang", version="0.5.23", lists={"decode": (1, 2, 700)})
    options = options_of(seen, SGLANG, {"max_running_requests": "64"})
    assert audit(steps({600: 1}), seen, SGLANG, options).step_share["padded"] == 1
    refused = EngineObservation(engine="vllm", lists={"capture": (1, 2)}, options={"max_cudagraph_capture_size": "8"})
    assert audit(steps({2: 1}), refused, VLLM, options_of(refused, VLLM)).step_share["exact"] == 1


def test_speculation_turns_requests_into_tokens() -> None:
    options = VLLM.options({"num_speculative_tokens": "2", "max_num_seqs": "8"})
    result = audit(steps({2: 4}), None, VLLM, options, {"capture": (3, 6, 24)})
    assert result.step_share["exact"] == 1
    assert result.never_used == (3, 24)


def test_few_samples_are_no_evidence_for_tails() -> None:
    few = audit(steps({3: 1}, origin="sample"), None, SGLANG, SGLANG.options({}))
    assert any(w.code == "SAMPLE_ONLY" and "too few" in w.message for w in few.warnings)
    many = audit(steps({n: 1 for n in range(1, 150)}, origin="sample"), None, SGLANG, SGLANG.options({}))
    assert any(w.code == "SAMPLE_ONLY" and "too few" not in w.message for w in many.warnings)


def test_requests_must_be_simulated_first() -> None:
    requests = RequestTrace(np.zeros(1), np.ones(1, dtype=np.int64), np.ones(1, dtype=np.int64))
    with pytest.raises(BadUsage, match="simulate the requests first"):
        audit(requests, None, VLLM, VLLM.options({}))


def test_a_given_list_that_the_engine_refuses_is_bad_usage() -> None:
    with pytest.raises(BadUsage, match="would not start"):
        audit(steps({1: 1}), None, VLLM, VLLM.options({}), {"capture": ()})


def test_options_come_from_the_log_and_the_user_overrules_them() -> None:
    seen = EngineObservation(
        engine="sglang",
        options={"cuda_graph_max_bs": "64", "max_running_requests": "None", "page_size": "1", "tp_size": "2"},
    )
    assert options_of(seen, SGLANG, {"tp": "4"}).tp_size == 4
    assert options_of(seen, SGLANG).cuda_graph_max_bs_decode == 64
    with pytest.raises(BadUsage, match="no option 'page_sizes'"):
        options_of(seen, SGLANG, {"page_sizes": "1"})


def test_the_engine_as_the_log_names_it() -> None:
    assert engine_of(None) is None
    assert engine_of(EngineObservation()) is None
    assert engine_of(EngineObservation(engine="vllm")) == "vllm"
    assert engine_of(EngineObservation(engine="vllm", version="0.33.0")) == "vllm@0.33.0"


@given(
    st.dictionaries(st.integers(1, 60), st.integers(1, 9), min_size=1),
    st.sets(st.integers(1, 50), min_size=1, max_size=8),
)
def test_against_a_count_step_by_step(rows: dict[int, int], sizes: set[int]) -> None:
    result = audit(steps(rows), None, SGLANG, SGLANG.options({}), {"decode": tuple(sorted(sizes))})
    exact = padded = fallback = slots = wasted = 0
    used: set[int] = set()
    for size, count in rows.items():
        bucket = min((s for s in sizes if s >= size), default=0)
        exact += count * (bucket == size)
        padded += count * (bucket > size)
        fallback += count * (bucket == 0)
        slots += count * (bucket or size)
        wasted += count * (bucket - size if bucket else 0)
        used.add(bucket)
    total = sum(rows.values())
    expected = {"exact": exact / total, "padded": padded / total, "fallback": fallback / total}
    assert result.step_share == pytest.approx(expected, abs=1e-12)
    assert result.above_ceiling == pytest.approx(fallback / total)
    assert result.padding_waste == pytest.approx(wasted / slots)
    assert result.never_used == tuple(sorted(sizes - used))
