"""SGLang: golden vectors, real threads, versions. Line numbers are of the SGLang 0.5.23 release."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.engines.base import Problem
from tuner.engines.registry import engine
from tuner.engines.sglang.options import SglangOptions

SGLANG = engine("sglang@0.5.23")


def options(**given: object) -> SglangOptions:
    made: SglangOptions = SGLANG.options({key: str(value) for key, value in given.items()})
    return made


def found(code: str, lists: dict[str, tuple[int, ...]], **given: object) -> Problem | None:
    hits = [problem for problem in SGLANG.lint(lists, options(**given)) if problem.code == code]
    return hits[0] if hits else None


@pytest.mark.parametrize(("largest", "length"), [(8, 4), (32, 8), (48, 10), (100, 17), (160, 24), (256, 36), (512, 52)])
def test_default_decode_ladder(largest: int, length: int) -> None:
    """arg_groups/cuda_graph_hook.py:500-532"""
    sizes = SGLANG.default_lists(options(cuda_graph_max_bs_decode=largest))["decode"]
    assert (len(sizes), sizes[-1]) == (length, largest)


def test_the_maximum_is_appended_off_the_grid() -> None:
    assert SGLANG.default_lists(options(cuda_graph_max_bs_decode=100))["decode"][-2:] == (96, 100)


@pytest.mark.parametrize(("largest", "length"), [(2048, 42), (4096, 50), (8192, 58), (16384, 74)])
def test_default_prefill_ladder(largest: int, length: int) -> None:
    """arg_groups/cuda_graph_hook.py:480-497"""
    assert len(SGLANG.default_lists(options(cuda_graph_max_bs_prefill=largest))["prefill"]) == length


def test_the_512_request_server_of_the_main_job() -> None:
    chosen = options(max_running_requests=512, cuda_graph_max_bs_decode=512)
    assert len(SGLANG.effective({}, chosen).families["decode_full"]) == 52
    allowed = SGLANG.allowed(chosen)
    assert (allowed.largest, allowed.reachable, allowed.multiple_of, allowed.required) == (512, 512, 1, ())


def test_speculation_and_no_padding_have_ladders_of_their_own() -> None:
    spec = SGLANG.default_lists(options(speculative_algorithm="EAGLE", cuda_graph_max_bs_decode=12))["decode"]
    assert spec == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
    every = SGLANG.default_lists(options(disable_cuda_graph_padding=True, cuda_graph_max_bs_decode=9))["decode"]
    assert every == tuple(range(1, 10))


@pytest.mark.parametrize(
    ("version", "memory_gib", "tp", "largest", "chunk"),
    [  # arg_groups/memory_hook.py:46-190; the 20-35 GiB row changed in 0.5.20 (#37898, case 4)
        ("0.5.23", 16, 1, 8, 2048),
        ("0.5.23", 32, 1, 48, 4096),
        ("0.5.23", 32, 4, 160, 4096),
        ("0.5.19", 32, 1, 24, 2048),
        ("0.5.19", 32, 4, 80, 2048),
        ("0.5.23", 48, 1, 32, 4096),
        ("0.5.23", 80, 1, 256, 8192),
        ("0.5.23", 141, 8, 512, 8192),
        ("0.5.23", 180, 1, 512, 16384),
    ],
)
def test_defaults_follow_the_gpu(version: str, memory_gib: int, tp: int, largest: int, chunk: int) -> None:
    chosen = engine(f"sglang@{version}").options({"gpu_memory_gib": str(memory_gib), "tp_size": str(tp)})
    assert (chosen.cuda_graph_max_bs_decode, chosen.chunked_prefill_size) == (largest, chunk)


def test_only_a_default_maximum_is_lowered_to_the_running_limit() -> None:
    assert options(max_running_requests=100).cuda_graph_max_bs_decode == 100
    assert options(max_running_requests=100, cuda_graph_max_bs_decode=256).cuda_graph_max_bs_decode == 256


def test_running_limit_left_to_the_engine() -> None:
    assert options(max_total_tokens=400_000, context_length=8192).max_running_requests == 4096
    assert options(max_total_tokens=3000, context_length=8192).max_running_requests == 1500


def test_alignment_drops_sizes() -> None:
    """runner/base_cuda_graph_runner.py:65-110, A = 4; case 8 (sglang#5335)."""
    given = {"enable_dp_attention": True, "tp_size": 8, "dp_size": 2, "max_running_requests": 64}
    lists = {"decode": (1, 2, 4, 8, 12, 16)}
    assert SGLANG.effective(lists, options(**given)).families["decode_full"] == (4, 8, 12, 16)
    problem = found("NOT_MULTIPLE", lists, **given)
    assert problem is not None
    assert problem.fix == [4, 8, 12, 16]
    assert SGLANG.allowed(options(**given)).multiple_of == 4
    # A rank holds its share of the running requests.
    assert SGLANG.limits(options(**given)).max_running_requests == 32


def test_alignment_counts_verify_tokens() -> None:
    given = {"enable_dp_attention": True, "tp_size": 4, "dp_size": 1, "speculative_algorithm": "EAGLE"}
    chosen = options(**given, speculative_num_draft_tokens=2)
    assert SGLANG.effective({"decode": (1, 2, 3, 4)}, chosen).families["decode_full"] == (2, 4)


def test_sizes_above_the_pool_become_the_pool() -> None:
    chosen = options(max_running_requests=100, cuda_graph_max_bs_decode=256)
    assert SGLANG.effective({}, chosen).families["decode_full"][-2:] == (96, 100)
    assert found("ABOVE_LIMIT", {"decode": (1, 100, 256)}, max_running_requests=100) is not None


@pytest.mark.parametrize(("sizes", "code"), [((), "EMPTY_LIST"), ((1, 2, 3), "EMPTY_AFTER_FILTER")])
def test_refused_lists(sizes: tuple[int, ...], code: str) -> None:
    given = {"enable_dp_attention": True, "tp_size": 4, "dp_size": 1}
    assert "AssertionError" in str(SGLANG.effective({"decode": sizes}, options(**given)).refused)
    problem = found(code, {"decode": sizes}, **given)
    assert problem is not None
    assert problem.severity == "error"
    assert SGLANG.effective({"decode": tuple(problem.fix)}, options(**given)).refused is None


def test_cases_1_and_2_the_silent_cliff() -> None:
    """sglang#33483, #33900: an L40 runs up to 4096 requests with graphs to 32."""
    given = {"gpu_memory_gib": 48, "max_running_requests": 4096}
    problem = found("TOP_NOT_COVERED", {}, **given)
    assert problem is not None
    assert "33 to 4096" in problem.message
    effective = SGLANG.effective({}, options(**given))
    assert len(effective.families["decode_full"]) == 8
    steps = SGLANG.dispatch(effective, options(**given)).dispatch("decode_full", np.array([32, 33]))
    assert steps.fallback.tolist() == [False, True]


def test_case_6_a_bucket_beyond_twice_the_step_is_not_used() -> None:
    """sglang#31487, `_MAX_PREFILL_CUDA_GRAPH_PADDING_FACTOR`."""
    lists = {"prefill": (2816, 3072, 8192)}
    table = SGLANG.dispatch(SGLANG.effective(lists, options()), options())
    buckets = table.dispatch("prefill_breakable", np.array([2700, 3208, 3353, 4095, 4096, 8193])).bucket
    assert buckets.tolist() == [2816, 0, 0, 0, 8192, 0]
    problem = found("PREFILL_GAP", lists)
    assert problem is not None
    assert "3073-4095" in problem.message
    assert found("PREFILL_GAP", {"prefill": tuple(problem.fix)}) is None


def test_case_7_prefill_sizes_and_tensor_parallelism() -> None:
    """sglang#36262: 4, 12, 20, 28 break reduce-scatter."""
    problem = found("PREFILL_NOT_MULTIPLE", {"prefill": (4, 8, 12, 20, 28)}, tp_size=8)
    assert problem is not None
    assert problem.fix == [8, 16, 24, 32]
    chosen = options(enable_dp_attention=True, tp_size=8, dp_size=1)
    assert SGLANG.effective({"prefill": (4, 8, 12)}, chosen).families["prefill_breakable"] == (8, 16)


def test_cases_16_and_17_draft_graphs_reuse_the_decode_list() -> None:
    """sglang#10088: draft graphs took 62.67 s beside 12.11 s; sglang#30944: the list is borrowed, without a knob."""
    lists: dict[str, tuple[int, ...]] = {"decode": (1, 2, 4), "prefill": ()}
    eagle = SGLANG.effective(lists, options(speculative_algorithm="EAGLE", speculative_num_draft_tokens=4))
    assert eagle.families == {"decode_full": (1, 2, 4), "draft": (1, 2, 4), "draft_extend": (1, 2, 4)}
    assert eagle.graphs == 9
    assert SGLANG.effective(lists, options(speculative_algorithm="NGRAM")).graphs == 3
    assert SGLANG.effective(lists, options(enable_lora=True)).graphs == 6


def test_no_padding_means_exact_sizes_only() -> None:
    chosen = options(disable_cuda_graph_padding=True)
    table = SGLANG.dispatch(SGLANG.effective({"decode": (4, 8)}, chosen), chosen)
    assert table.dispatch("decode_full", np.array([3, 4])).bucket.tolist() == [0, 4]
    assert found("EXACT_ONLY", {"decode": (4, 8)}, disable_cuda_graph_padding=True) is not None


@pytest.mark.parametrize(
    "given", [{"enable_two_batch_overlap": True}, {"attn_cp_size": 2}, {"pp_size": 2}, {"disable_cuda_graph": True}]
)
def test_what_switches_prefill_graphs_off(given: dict[str, object]) -> None:
    assert "prefill_breakable" not in SGLANG.effective({"prefill": (64, 128)}, options(**given)).families
    assert found("PREFILL_OFF", {"prefill": (64, 128)}, **given) is not None


def test_prefill_sizes_that_no_batch_can_fill() -> None:
    given = {"max_running_requests": 2, "context_length": 100}
    assert SGLANG.effective({"prefill": (64, 512)}, options(**given)).families["prefill_breakable"] == (64,)
    assert found("PREFILL_ABOVE_LIMIT", {"prefill": (64, 512)}, **given) is not None
    assert found("PREFILL_EMPTY", {"prefill": (512,)}, **given) is not None


def test_old_versions_have_no_prefill_flag() -> None:
    old = engine("sglang@0.5.3")
    assert "FLAG_ABSENT" in {problem.code for problem in old.lint({"prefill": (8,)}, old.options({}))}
