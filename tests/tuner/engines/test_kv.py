"""KV capacity under a capture list: each engine's own rule, with figures computed by hand from its source."""

from __future__ import annotations

import pytest

from tuner.engines.kv import GraphMemory
from tuner.engines.registry import engine
from workloads.errors import BadUsage

MIB = 1024 * 1024
WITH_A_RULE = ("vllm", "sglang", "tensorrt-llm")
FACTS = {"weights_gib": "16", "kv_bytes_per_token": "131072", "gpu_memory_gib": "80"}
MEMORY = GraphMemory({"decode_full": {1: 2.0, 8: 4.0, 64: 10.0, 512: 40.0}}, pool_mib=100.0)


def test_sglang_reserves_by_the_largest_size_not_by_the_list() -> None:
    """0.5.23 memory_hook.py:275-415, on a 48 GiB GPU, where no floor applies."""
    chosen = engine("sglang@0.5.23")
    options = chosen.options({**FACTS, "gpu_memory_gib": "48", "disable_prefill_cuda_graph": "true"})
    short = chosen.kv_tokens({"decode": (32,)}, options)
    full = chosen.kv_tokens({"decode": tuple(range(1, 33))}, options)
    lower = chosen.kv_tokens({"decode": (8,)}, options)
    # 512 + 1.5 x 4096 + 1024 / 8 + 2 x 32 MiB
    assert chosen.reserved_mib({"decode": (32,)}, options) == 512 + 6144 + 128 + 64
    assert short == full
    assert short.moves and lower.tokens is not None and short.tokens is not None
    assert lower.tokens > short.tokens
    fraction = round((48 * 1024 - 6848) / (48 * 1024), 3)
    assert short.tokens == int((48 * fraction - 16) * 1024 * MIB // 131072)


def test_sglang_prefill_sizes_and_dp_attention_are_reserved_for() -> None:
    chosen = engine("sglang@0.5.23")
    given = {"gpu_memory_gib": "48", "tp_size": "8", "dp_size": "8", "enable_dp_attention": "true"}
    none = chosen.reserved_mib({"decode": (400,), "prefill": ()}, chosen.options(given))
    three = chosen.reserved_mib({"decode": (400,), "prefill": (64, 128, 256)}, chosen.options(given))
    assert three is not None and none is not None
    assert three - none == 24
    assert none == 512 + 1.5 * 4096 + 1024 + 2 * 400 + 4.5 * 400 * 8
    mla = chosen.options({**given, "use_mla": "true", "moe_a2a_backend": "deepep"})
    deepep = chosen.reserved_mib({"decode": (400,), "prefill": (64,)}, mla)
    assert deepep == none + 1536 + 1024 + 2048


def test_sglang_keeps_at_least_ten_gib_on_large_gpus() -> None:
    chosen = engine("sglang@0.5.23")
    options = chosen.options({**FACTS, "chunked_prefill_size": "2048", "max_running_requests": "64"})
    outcome = chosen.kv_tokens({"decode": (64,)}, options)
    assert chosen.reserved_mib({"decode": (64,)}, options) == 10240
    assert not outcome.moves
    assert "10240 MiB" in outcome.reason and "mem_fraction_static" in outcome.knob


def test_sglang_fixed_fraction_and_post_capture_sizing() -> None:
    chosen = engine("sglang")
    fixed = chosen.options({**FACTS, "mem_fraction_static": "0.8"})
    assert chosen.kv_tokens({"decode": (8,)}, fixed) == chosen.kv_tokens({"decode": (512,)}, fixed)
    after = chosen.options({**FACTS, "post_capture_kv_sizing": "true", "disable_prefill_cuda_graph": "true"})
    small, large = (chosen.kv_tokens({"decode": sizes}, after, MEMORY).tokens for sizes in ((8,), (8, 64, 512)))
    assert small is not None and large is not None
    assert small - large == pytest.approx((10 + 40) * MIB / 131072, abs=2)


def test_vllm_subtracts_an_extrapolated_estimate() -> None:
    """v1/worker/gpu/cudagraph_utils.py:915-1040: PIECEWISE in full, FULL from its two largest graphs."""
    chosen = engine("vllm@0.33.0")
    options = chosen.options({**FACTS, "max_num_seqs": "512", "activation_gib": "2"})
    lists = {"capture": (1, 8, 64, 512)}
    estimate = chosen.reserved_mib(lists, options, MEMORY)
    assert estimate == (2 + 4 + 10 + 40) + (100 + 40 + 3 * 10)
    outcome = chosen.kv_tokens(lists, options, MEMORY)
    assert outcome.moves
    assert outcome.tokens == int(((80 * 0.92 - 18) * 1024 - estimate) * MIB // 131072)
    shorter = chosen.kv_tokens({"capture": (8, 512)}, options, MEMORY).tokens
    assert shorter is not None and shorter > outcome.tokens


def test_vllm_versions_and_switches_that_do_not_estimate() -> None:
    for spec, given in (("vllm@0.13.0", {}), ("vllm@0.33.0", {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"})):
        chosen = engine(spec)
        options = chosen.options({**FACTS, **given})
        assert chosen.reserved_mib({"capture": (1, 512)}, options, MEMORY) == 0.0
        outcome = chosen.kv_tokens({"capture": (1, 512)}, options, MEMORY)
        assert not outcome.moves
        assert "gpu_memory_utilization" in outcome.knob
        assert "upper bound" in outcome.reason


@pytest.mark.parametrize("given", [{"num_gpu_blocks_override": "1000"}, {"kv_cache_memory_bytes": str(16000 * 131072)}])
def test_vllm_a_fixed_cache_does_not_move(given: dict[str, str]) -> None:
    chosen = engine("vllm")
    outcome = chosen.kv_tokens({"capture": (1, 512)}, chosen.options({**FACTS, **given}), MEMORY)
    assert (outcome.tokens, outcome.moves) == (16000, False)


def test_tensorrt_llm_gives_kv_a_share_of_what_graphs_leave() -> None:
    """TensorRT-LLM pull request 13393: graphs displaced KV cache."""
    chosen = engine("tensorrt-llm")
    options = chosen.options({**FACTS, "activation_gib": "4"})
    outcome = chosen.kv_tokens({"decode": (1, 8, 64)}, options, MEMORY)
    assert outcome.moves
    assert outcome.tokens == int((60 * 1024 - 116) * 0.9 * MIB // 131072)
    bounded = chosen.options({**FACTS, "max_tokens": "1000"})
    assert chosen.kv_tokens({"decode": (1,)}, bounded, MEMORY).tokens == 1000
    assert not chosen.kv_tokens({"decode": (1,)}, bounded, MEMORY).moves


@pytest.mark.parametrize("name", WITH_A_RULE)
def test_what_is_not_known_is_named(name: str) -> None:
    chosen = engine(name)
    outcome = chosen.kv_tokens({}, chosen.options({}))
    assert outcome.tokens is None or not outcome.moves
    if outcome.tokens is None:
        assert "weights_gib" in outcome.reason


def test_graphs_that_were_measured_together_with_those_of_decode_are_counted_once() -> None:
    together = GraphMemory({**MEMORY.families, "decode_piecewise": {16: 0.0, 512: 0.0}}, pool_mib=100.0)
    lists = {"capture": (1, 8, 64)}
    assert together.total_mib({"decode_full": (1, 8, 64), "decode_piecewise": (1, 8, 64)}) == 116.0
    chosen = engine("vllm@0.23.0")
    options = chosen.options({"use_v2_model_runner": "false"})
    alone = chosen.options({"use_v2_model_runner": "false", "cudagraph_mode": "FULL_DECODE_ONLY"})
    assert chosen.reserved_mib(lists, options, together) == chosen.reserved_mib(lists, alone, MEMORY) == 118.0


def test_a_size_between_two_measured_ones_costs_the_larger() -> None:
    assert MEMORY.sizes_mib("decode_full", (2, 64, 4000)) == (4.0, 10.0, 40.0)
    assert MEMORY.sizes_mib("draft", (1,)) == (2.0,)
    assert MEMORY.total_mib({"decode_full": (1, 8)}, graphs=4) == 112.0
    assert MEMORY.total_mib({}) == GraphMemory({}).total_mib({"decode_full": (1,)}) == 0.0


@pytest.mark.parametrize("text", ["0", "nan", "-1", "inf"])
def test_facts_are_above_zero(text: str) -> None:
    for name in WITH_A_RULE:
        with pytest.raises(BadUsage, match="above 0"):
            engine(name).options({"kv_bytes_per_token": text})


def test_vllm_runner_v2_subtracted_nothing_at_first() -> None:
    """0.22.0 to 0.28.0 `v1/worker/gpu/model_runner.py:profile_cudagraph_memory` returns 0; 0.23.0 was seen to report
    the same KV tokens with 10, 11 and 51 sizes of a Llama, which it runs on V2."""
    lists = {"capture": (1, 8, 64)}
    for spec, given, moves in (
        ("vllm@0.23.0", {"use_v2_model_runner": "true"}, False),
        ("vllm@0.23.0", {}, True),
        ("vllm@0.28.0", {}, False),
        ("vllm@0.29.0", {}, True),
    ):
        chosen = engine(spec)
        found = chosen.kv_tokens(lists, chosen.options({**FACTS, **given}), MEMORY)
        assert found.moves is moves, spec
    assert "With model runner V2" in engine("vllm@0.23.0").kv_tokens(lists, engine("vllm@0.23.0").options(FACTS)).reason
