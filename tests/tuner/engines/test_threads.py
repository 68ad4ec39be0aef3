"""Real threads that ask something of engine rules; each test names its thread. Further cases stand beside their engine
in test_vllm.py, test_sglang.py and test_tensorrt_llm.py, and those about traffic in the tests of audit and tuning."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.engines.base import Lists, Problem, Provenance
from tuner.engines.kv import GraphMemory
from tuner.engines.registry import engine
from tuner.engines.small.lightllm import Lightllm
from tuner.engines.small.vllm_ascend import evenly


def lint(spec: str, lists: Lists, **given: object) -> dict[str, Problem]:
    chosen = engine(spec)
    options = chosen.options({key: str(value) for key, value in given.items()})
    return {problem.code: problem for problem in chosen.lint(lists, options)}


def captured(spec: str, lists: Lists, **given: object) -> tuple[int, ...]:
    chosen = engine(spec)
    options = chosen.options({key: str(value) for key, value in given.items()})
    return chosen.effective(lists, options).families.get(chosen.decode_family, ())


def test_case_4_the_small_gpu_tier_grew() -> None:
    """sglang#37898: at 32 requests a 32 GB GPU was 71 % slower than vLLM, because graphs ended at 24."""
    assert captured("sglang@0.5.19", {}, gpu_memory_gib=32)[-1] == 24
    assert captured("sglang@0.5.20", {}, gpu_memory_gib=32)[-1] == 48
    assert "TOP_NOT_COVERED" in lint("sglang@0.5.19", {}, gpu_memory_gib=32, max_running_requests=32)
    assert "TOP_NOT_COVERED" not in lint("sglang@0.5.20", {}, gpu_memory_gib=32, max_running_requests=32)


def test_case_10_buckets_are_those_of_one_rank() -> None:
    """sglang#30242: a rank's sizes follow its share of the requests, and every rank has the same list."""
    given = {"enable_dp_attention": True, "tp_size": 8, "dp_size": 8, "max_running_requests": 256}
    assert captured("sglang@0.5.23", {"decode": (8, 32, 256)}, **given) == (8, 32)
    assert "ABOVE_LIMIT" in lint("sglang@0.5.23", {"decode": (8, 32, 256)}, **given)


@pytest.mark.parametrize(
    ("spec", "given"),
    [
        ("sglang@0.5.23", {"gpu_memory_gib": 80, "weights_gib": 79, "kv_bytes_per_token": 70000}),
        ("vllm@0.13.0", {"gpu_memory_gib": 80, "weights_gib": 79, "kv_bytes_per_token": 70000}),
    ],
)
def test_cases_12_13_14_no_memory_left_is_said(spec: str, given: dict[str, object]) -> None:
    """sglang#24453, #23769, #5634"""
    problem = lint(spec, {}, **given)["MEMORY_ABOVE_BUDGET"]
    assert problem.severity == "error"


def test_cases_12_and_25_a_cache_below_one_request_is_said() -> None:
    """sglang#24453; vllm#54418: 0.94 GiB of KV cache where 5.12 GiB are needed for one request."""
    given = {"num_gpu_blocks_override": 500, "max_model_len": 32768}
    assert lint("vllm@0.33.0", {}, **given)["KV_BELOW_ONE_REQUEST"].fix == 8000
    given = {"max_total_tokens": 4000, "context_length": 32768}
    assert "KV_BELOW_ONE_REQUEST" in lint("sglang@0.5.23", {}, **given)


def test_case_18_a_prefill_bucket_is_one_more_size_to_reserve_for() -> None:
    """sglang#31203: bucket 8192 costs 0.49 GiB where 4096 costs 0.26 GiB; SGLang reserves 8 MiB a size either way."""
    chosen = engine("sglang@0.5.23")
    options = chosen.options({"gpu_memory_gib": "48"})
    one, two = (chosen.reserved_mib({"prefill": sizes}, options) for sizes in ((4096,), (4096, 8192)))
    assert one is not None and two is not None
    assert two - one == 8


def test_case_20_capturing_nothing_is_possible() -> None:
    """sglang#2360: on a 4090 graphs bring nothing and cost time to first token."""
    found = lint("sglang@0.5.23", {}, disable_cuda_graph=True)
    assert found["GRAPHS_OFF"].severity == "warning"
    assert captured("sglang@0.5.23", {}, disable_cuda_graph=True) == ()
    assert captured("tgi@3.3", {"decode": ()}) == ()


def test_case_29_every_tier_of_dynamic_speculation_has_its_own_graphs() -> None:
    """vllm#48494, tiers [1-64:3, 65-128:1, 129-512:0]."""
    given = {
        "max_num_seqs": 512,
        "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": "1-64:3,65-128:1,129-512:0",
    }
    chosen = engine("vllm@0.33.0")
    options = chosen.options({key: str(value) for key, value in given.items()})
    sizes = chosen.default_lists(options)["capture"]
    assert {64 * 4, 128 * 2, 512 * 1} <= set(sizes)
    effective = chosen.effective({}, options)
    plain = chosen.effective({}, chosen.options({"max_num_seqs": "512", "num_speculative_tokens": "3"}))
    assert effective.graphs > plain.graphs
    assert "TIER_NOT_COVERED" not in lint("vllm@0.33.0", {}, **given)
    short = lint("vllm@0.33.0", {"capture": (4, 8, 64)}, **given)
    assert short["TIER_NOT_COVERED"].fix[-3:] == [64, 256, 512]


def test_case_31_finer_small_sizes_take_the_padding_away() -> None:
    """vllm#12920: at 9 requests the default pads to 16; interactivity has a size of 9."""
    for mode, bucket in (("balanced", 16), ("interactivity", 9)):
        chosen = engine("vllm@0.33.0")
        options = chosen.options({"performance_mode": mode})
        table = chosen.dispatch(chosen.effective({}, options), options)
        assert table.dispatch("decode_full", np.array([9])).bucket.tolist() == [bucket]


def test_case_33_a_lower_maximum_means_fewer_graphs() -> None:
    """pytorch/torchtitan#3145: 30 s to 11 s of capture."""
    chosen = engine("vllm@0.33.0")
    graphs = [
        chosen.effective({}, chosen.options({"max_cudagraph_capture_size": size})).graphs for size in ("512", "64")
    ]
    assert graphs == [102, 22]


def test_cases_36_37_39_40_the_estimate_is_an_estimate() -> None:
    """vllm#53013, #45178, #57475, #51590: extrapolating the second largest graph can be far off either way."""
    chosen = engine("vllm@0.33.0")
    options = chosen.options({"use_v2_model_runner": "false", "cudagraph_mode": "FULL_DECODE_ONLY"})
    sizes = tuple(range(8, 513, 8))
    steep = GraphMemory({"decode_full": {8: 1.0, 256: 1.0, 504: 40.0, 512: 40.0}})
    estimate = chosen.reserved_mib({"capture": sizes}, options, steep)
    truth = steep.total_mib({"decode_full": sizes})
    assert estimate == 40 * 64
    assert estimate > 1.5 * truth
    assert "differ from the truth" in chosen.kv_tokens({"capture": sizes}, options, steep).reason
    fewer = chosen.reserved_mib({"capture": (8, 512)}, options, steep)
    assert fewer is not None and fewer < estimate


def test_case_41_mamba_blocks_bound_the_requests() -> None:
    """vllm#49064, #38270: max_num_seqs 1024 with 856 blocks does not start with FULL graphs."""
    found = lint("vllm@0.33.0", {}, mamba_cache_blocks=856)
    assert found["MAMBA_BLOCKS"].fix == {"max_num_seqs": 856}
    assert "MAMBA_BLOCKS" not in lint("vllm@0.33.0", {}, mamba_cache_blocks=856, cudagraph_mode="PIECEWISE")
    assert "MAMBA_BLOCKS" not in lint("vllm@0.33.0", {}, mamba_cache_blocks=856, max_num_seqs=856)


def test_case_42_a_coarse_tail_is_captured_as_asked() -> None:
    """vllm#31846: steps of 64 above 1024."""
    sizes = (*range(16, 1025, 16), *range(1088, 2049, 64))
    assert captured("vllm@0.33.0", {"capture": sizes}, max_num_seqs=2048, max_num_batched_tokens=8192) == sizes


def test_case_44_the_counter_that_stays_silent_is_not_recommended() -> None:
    """vllm#52728: --cudagraph-metrics prints nothing on model runner V2 of 0.27.1."""
    for spec, flag in (("vllm@0.27.1", "--enable-logging-iteration-details"), ("vllm@0.33.0", "--cudagraph-metrics")):
        chosen = engine(spec)
        watch = chosen.export({"capture": (1, 8)}, chosen.options({}), Provenance()).watch
        assert watch.startswith(f"Start once with {flag}")


def test_case_46_the_ladder_before_and_after() -> None:
    """TensorRT-LLM#12895: powers of two above 128, then steps of 64."""
    assert captured("trtllm@1.2", {}, cuda_graph_max_batch_size=1024)[-4:] == (128, 256, 512, 1024)
    assert captured("trtllm@1.3", {}, cuda_graph_max_batch_size=1024)[-4:] == (832, 896, 960, 1024)


def test_trtllm_draft_thresholds_and_prefill_sizes() -> None:
    chosen = engine("trtllm@1.3")
    options = chosen.options({"max_draft_len": "4", "draft_len_schedule": "5:4,17:2", "max_num_tokens": "2048"})
    effective = chosen.effective({"decode": (1, 8), "prefill": (512, 4096)}, options)
    assert effective.families == {"decode_full": (1, 5, 8, 17), "prefill_piecewise": (512,)}
    assert "PREFILL_ABOVE_LIMIT" in {problem.code for problem in chosen.lint({"prefill": (4096,)}, options)}


def test_case_53_a_thinned_list_leaves_a_gap_where_batches_are() -> None:
    """vllm-ascend#1168: 1920 / layers / 2 gives a 32B 15 sizes, a 235B 6: [512, 408, 304, 192, 88, 1]."""
    ladder = (1, 2, 4, *range(8, 513, 8))
    assert evenly(ladder, 6) == (1, 88, 192, 304, 408, 512)
    chosen = engine("vllm-ascend")
    dense = chosen.options({"num_hidden_layers": "64", "max_num_seqs": "512"})
    assert chosen.allowed(dense).max_length == 15
    moe = chosen.options({"num_hidden_layers": "94", "parallel_factor": "3", "max_num_seqs": "512"})
    assert chosen.allowed(moe).max_length == 6
    assert len(chosen.effective({}, moe).families["decode_piecewise"]) == 6
    chosen_list = (1, 8, 16, 32, 64, 512)
    assert chosen.effective({"capture": chosen_list}, moe).families["decode_full"] == chosen_list
    assert "GRAPH_SLOTS" in {problem.code for problem in chosen.lint({"capture": ladder}, moe)}


def test_case_54_a_hard_cap_on_the_number_of_graphs() -> None:
    """vllm-ascend#3869, #9596, #8585: virtual NPUs share streams, even two graphs can be too many."""
    assert captured("vllm-ascend", {"capture": (1, 2, 4)}, graph_slots=1) == (4,)
    assert captured("vllm-ascend", {}, atlas_950=True, max_num_seqs=512)[-1] == 512
    assert len(captured("vllm-ascend", {}, atlas_950=True, max_num_seqs=512)) == 4


def test_ascend_filters_by_tp() -> None:
    given = {"tensor_parallel_size": 4, "flashcomm": True}
    assert captured("vllm-ascend", {"capture": (1, 4, 6, 8)}, **given) == (4, 8)
    assert lint("vllm-ascend", {"capture": (1, 2)}, **given)["EMPTY_AFTER_FILTER"].severity == "error"


def test_case_57_gaudi_prompts_stay_bucketed() -> None:
    """vllm-gaudi#1507: prompts above the largest bucket lost 29 % throughput."""
    chosen = engine("vllm-gaudi")
    options = chosen.options({"max_num_seqs": "64", "max_num_batched_tokens": "4096"})
    text = chosen.export({"decode": (1, 4, 64)}, options, Provenance()).files["gaudi-buckets.txt"]
    assert "([1, 4, 64], 1, [1, " in text
    assert ", 4096], [0, " in text
    assert chosen.default_lists(options)["decode"] == (1, 2, 4, 8, 12, 22, 36, 64)


def test_case_58_lmdeploy_always_adds_the_maximum() -> None:
    """lmdeploy#4573: [4, 1, 4, 16] with a maximum of 8 becomes [1, 4, 8]."""
    assert captured("lmdeploy@0.10", {"decode": (4, 1, 4, 16)}, max_batch_size=8) == (1, 4, 8)
    assert captured("lmdeploy@0.10", {}, max_batch_size=600) == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600)
    for sizes, code in (((), "EMPTY_LIST"), ((16,), "EMPTY_AFTER_FILTER")):
        assert lint("lmdeploy@0.10", {"decode": sizes}, max_batch_size=8)[code].severity == "error"
    assert engine("lmdeploy").allowed(engine("lmdeploy").options({"max_batch_size": "8"})).required == (8,)


def test_case_59_mini_sglang_does_not_append_its_maximum() -> None:
    """mini-sglang#56: finer steps cost seven graphs; a maximum of 12 ends at 8."""
    assert captured("mini-sglang", {}, cuda_graph_max_bs=12) == (1, 2, 4, 8)
    assert lint("mini-sglang", {}, cuda_graph_max_bs=12)["TRUNCATED"].fix == [1, 2, 4, 8, 12]
    assert captured("mini-sglang", {})[-1] == 256
    assert captured("mini-sglang", {}, free_gpu_memory_gib=80)[-1] == 160


def test_case_62_sizes_that_fail_on_a_platform() -> None:
    """ROCm sglang#7847: a segmentation fault at 512."""
    problem = lint("sglang@0.5.23", {"decode": (1, 256, 512)}, is_hip=True, max_running_requests=512)["PLATFORM_QUIRK"]
    assert problem.fix == [1, 256]


def test_nano_vllm_stops_between_its_sizes() -> None:
    assert captured("nano-vllm", {}, max_num_seqs=20) == (1, 2, 4, 8, 16)
    assert lint("nano-vllm", {}, max_num_seqs=20)["NO_BUCKET"].fix == {"max_num_seqs": 16}
    assert "NOT_EXPRESSIBLE" in lint("nano-vllm", {"decode": (1, 3)}, max_num_seqs=20)
    assert captured("nano-vllm", {}, max_num_seqs=1024)[-1] == 512


def test_tgi_skips_sizes_below_a_step_of_one_request() -> None:
    assert captured("tgi", {}, speculate=2) == (4, 8, 16, 32)
    assert captured("tgi", {}) == (1, 2, 4, 8, 16, 32)
    assert lint("tgi", {}, speculate=2).keys() >= {"TOP_NOT_COVERED"}
    assert lint("tgi", {"decode": (1, 8)}, speculate=2)["BELOW_QUERY"].fix == [8]


def test_lightllm_gets_the_nearest_ladder() -> None:
    chosen = engine("lightllm")
    options = chosen.options({})
    default = chosen.default_lists(options)["decode"]
    assert default == (*range(1, 33), *range(48, 256, 16), 256)
    export = chosen.export({"decode": (1, 2, 3, 4, 8, 12, 16)}, options, Provenance())
    assert "--graph_split_batch_size 4" in export.text and "--graph_grow_step_size 4" in export.text
    assert export.loss is None
    assert "takes no list" in str(chosen.export({"decode": (1, 5, 64)}, options, Provenance()).loss)
    assert isinstance(chosen, Lightllm)
    assert chosen.ladder(chosen.nearest(default, options)) == default


@pytest.mark.parametrize(
    "given",
    [
        {"uses_kda": True},
        {"is_deepseek_v4": True},
        {"is_multimodal": True},
        {"dcp_size": 2},
        {"moe_a2a_backend": "nixl"},
        {"deepseek_v3_trtllm_mla": True},
        {"disaggregation_mode": "decode"},
    ],
)
def test_sglang_switches_prefill_graphs_off_unless_a_backend_is_set(given: dict[str, object]) -> None:
    """0.5.23 cuda_graph_hook.py:136-255"""
    assert "PREFILL_OFF" in lint("sglang@0.5.23", {"prefill": (64,)}, **given)
    assert "PREFILL_OFF" not in lint(
        "sglang@0.5.23", {"prefill": (64,)}, **given, cuda_graph_backend_prefill="breakable"
    )


def test_sglang_deepep_rounds_prefill_sizes_to_eight() -> None:
    """0.5.23 cuda_graph_hook.py:apply_deepep_adjustments"""
    chosen = engine("sglang@0.5.23")
    options = chosen.options({"moe_a2a_backend": "deepep"})
    assert chosen.effective({"prefill": (4, 8, 20)}, options).families["prefill_breakable"] == (8, 24)
    assert captured("sglang@0.5.23", {}, disaggregation_mode="prefill") == ()
