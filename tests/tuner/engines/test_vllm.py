"""vLLM: golden vectors, real threads, versions. Line numbers are of the vLLM 0.33.0 release."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.engines.base import Problem
from tuner.engines.registry import engine
from tuner.engines.vllm.options import VllmOptions

VLLM = engine("vllm@0.33.0")


def options(**given: object) -> VllmOptions:
    made: VllmOptions = VLLM.options({key: str(value) for key, value in given.items()})
    return made


def found(code: str, sizes: tuple[int, ...] | None, **given: object) -> Problem | None:
    lists = {} if sizes is None else {"capture": sizes}
    hits = [problem for problem in VLLM.lint(lists, options(**given)) if problem.code == code]
    return hits[0] if hits else None


@pytest.mark.parametrize(
    ("seqs", "tokens", "arch", "length", "full"),
    [  # config/vllm.py:2398-2655
        (256, 2048, "sm90", 51, 35),
        (1024, 8192, "sm90", 51, 51),
        (1024, 16384, "sm100", 83, 83),
        (512, 8192, "sm90", 51, 51),
    ],
)
def test_default_ladder(seqs: int, tokens: int, arch: str, length: int, full: int) -> None:
    chosen = options(max_num_seqs=seqs, max_num_batched_tokens=tokens, gpu_arch=arch)
    effective = VLLM.effective({}, chosen)
    assert len(VLLM.default_lists(chosen)["capture"]) == len(effective.families["decode_piecewise"]) == length
    assert len(effective.families["decode_full"]) == full
    assert effective.graphs == length + full


def test_max_num_seqs_is_appended_and_the_last_element_is_the_maximum() -> None:
    chosen = options(max_num_seqs=6, max_num_batched_tokens=8192)
    assert VLLM.default_lists(chosen)["capture"] == (1, 2, 4, 6, 8)


def test_a_small_token_budget_is_captured_itself() -> None:
    assert VLLM.default_lists(options(max_num_seqs=100, max_num_batched_tokens=101))["capture"][-2:] == (100, 101)


def test_interactivity_starts_with_every_small_size() -> None:
    sizes = VLLM.default_lists(options(performance_mode="interactivity"))["capture"]
    assert sizes[:34] == (*range(1, 33), 40, 48)


@pytest.mark.parametrize(
    ("memory_gib", "arch", "seqs", "tokens"),
    [  # engine/arg_utils.py:2955-3037
        (24, "sm89", 256, 2048),
        (80, "sm80", 256, 2048),
        (80, "sm90", 1024, 8192),
        (141, "sm90", 1024, 8192),
        (119, "sm121", 256, 2048),
        (180, "sm100", 1024, 16384),
    ],
)
def test_limits_follow_the_gpu(memory_gib: int, arch: str, seqs: int, tokens: int) -> None:
    limits = VLLM.limits(options(gpu_memory_gib=memory_gib, gpu_arch=arch))
    assert (limits.max_running_requests, limits.token_budget) == (seqs, tokens)


def test_throughput_mode_doubles_defaults_only() -> None:
    assert options(performance_mode="throughput").max_num_seqs == 2048
    assert options(performance_mode="throughput", max_num_seqs=100).max_num_seqs == 100


def test_runner_v1_rounds_the_list_to_whole_requests() -> None:
    chosen = options(num_speculative_tokens=2, use_v2_model_runner=False)  # config/compilation.py:1537
    effective = VLLM.effective({"capture": (1, 2, 4, 8)}, chosen)
    assert effective.families == {"decode_full": (3, 6), "decode_piecewise": (3, 6)}
    assert [(c.requested, c.effective) for c in effective.changes] == [(1, 3), (2, 3), (4, 6), (8, None)]


def test_runner_v1_refuses_a_list_without_room_for_one_request() -> None:
    chosen = options(num_speculative_tokens=16, use_v2_model_runner=False)
    assert "no valid cudagraph sizes" in str(VLLM.effective({"capture": (1, 2)}, chosen).refused)


def test_runner_v2_rounds_full_graphs_only() -> None:
    chosen = options(num_speculative_tokens=2)  # v1/worker/gpu/cudagraph_utils.py:255-345
    effective = VLLM.effective({"capture": (1, 2, 4, 8)}, chosen)
    assert effective.families == {"decode_full": (3, 6), "decode_piecewise": (1, 2, 4, 8)}


def test_case_21_a_batch_below_max_num_seqs_falls_to_piecewise() -> None:
    """vllm#57355: max_num_seqs 100, batch 97 pads to 104, for which no FULL graph exists."""
    chosen = options(max_num_seqs=100)
    sizes = (1, 2, 4, *range(8, 201, 8))
    effective = VLLM.effective({"capture": sizes}, chosen)
    steps = VLLM.dispatch(effective, chosen).dispatch("decode_full", np.array([96, 97, 100]))
    assert steps.bucket.tolist() == [96, 104, 104]
    assert steps.elsewhere.tolist() == [False, True, True]
    problem = found("TOP_FALLS_TO_PIECEWISE", sizes, max_num_seqs=100)
    assert problem is not None
    assert problem.fix == sorted({*sizes, 100})
    assert found("TOP_FALLS_TO_PIECEWISE", tuple(problem.fix), max_num_seqs=100) is None
    assert 100 in VLLM.default_lists(chosen)["capture"]
    assert 100 not in engine("vllm@0.20.0").default_lists(chosen)["capture"]


def test_case_22_the_token_budget_belongs_to_the_list() -> None:
    """vllm#40734: sizes to 2048 with 700 batched tokens leave the largest step eager."""
    sizes = (*range(16, 700, 16), 2048)
    problem = found("ABOVE_LIMIT", sizes, max_num_seqs=256, max_num_batched_tokens=700)
    assert problem is not None
    assert problem.fix[-1] == 700
    effective = VLLM.effective({"capture": sizes}, options(max_num_seqs=256, max_num_batched_tokens=700))
    assert [(c.requested, c.effective) for c in effective.changes] == [(2048, None)]


def test_case_24_an_explicit_maximum_is_truncated() -> None:
    """vllm#54933: 6 requests of 7 tokens need 42, the ladder with an explicit maximum ends at 40."""
    given = {"max_num_seqs": 6, "num_speculative_tokens": 6, "max_cudagraph_capture_size": 42}
    assert VLLM.default_lists(options(**given))["capture"][-1] == 40
    truncated = found("TRUNCATED", None, **given)
    assert truncated is not None
    assert truncated.fix["cudagraph_capture_sizes"][-1] == 42
    assert found("TOP_NOT_COVERED", None, **given) is not None
    default = VLLM.default_lists(options(**given))
    assert VLLM.effective(default, options(**given)) == VLLM.effective({}, options(**given))
    assert VLLM.lint(default, options(**given)) == VLLM.lint({}, options(**given))
    fixed = tuple(truncated.fix["cudagraph_capture_sizes"])
    assert VLLM.effective({"capture": fixed}, options(**given)).families["decode_full"][-1] == 42
    # Left alone, the default covers the widest uniform decode step.
    assert 42 in VLLM.default_lists(options(max_num_seqs=6, num_speculative_tokens=6))["capture"]


def test_case_25_the_widest_step_may_lie_above_the_default_ceiling() -> None:
    """vllm#50488: 32 requests of 17 tokens make 544, above the cap of 512."""
    problem = found("TOP_NOT_COVERED", None, max_num_seqs=32, num_speculative_tokens=16)
    assert problem is not None
    assert problem.fix[-1] == 544
    allowed = VLLM.allowed(options(max_num_seqs=32, num_speculative_tokens=16))
    assert (allowed.largest, allowed.reachable, allowed.multiple_of) == (544, 544, 17)


def test_case_27_sizes_that_are_no_multiple_of_the_query_length() -> None:
    """vllm#46324: PIECEWISE sizes off the grid of q = 16 crash."""
    problem = found("NOT_MULTIPLE", (1, 16, 24, 32), num_speculative_tokens=15, max_num_seqs=2)
    assert problem is not None
    assert problem.fix == [16, 32]


def test_case_34_lora_doubles_the_graphs() -> None:
    """vllm#25914: LoRA specialisation took graph memory from 1.62 to 2.38 GiB."""
    assert VLLM.effective({}, options(enable_lora=True)).graphs == 204


@pytest.mark.parametrize(
    ("sizes", "given", "code", "says"),
    [
        ((), {}, "EMPTY_LIST", "at least one element"),
        ((9000,), {}, "EMPTY_AFTER_FILTER", "above max_num_batched_tokens"),
        ((1, 2, 4), {"max_cudagraph_capture_size": 8}, "MAX_MISMATCH", "must equal the largest kept size"),
    ],
)
def test_refused_lists(sizes: tuple[int, ...], given: dict[str, int], code: str, says: str) -> None:
    effective = VLLM.effective({"capture": sizes}, options(**given))
    assert says in str(effective.refused)
    assert (effective.families, effective.graphs) == ({}, 0)
    problem = found(code, sizes, **given)
    assert problem is not None
    assert problem.severity == "error"


def test_an_explicit_maximum_is_a_required_size() -> None:
    allowed = VLLM.allowed(options(max_num_seqs=512, max_cudagraph_capture_size=256))
    assert (allowed.largest, allowed.required, allowed.reachable) == (256, (256,), 512)


@pytest.mark.parametrize(
    ("mode", "families", "graphs"),
    [
        ("NONE", set(), 0),
        ("PIECEWISE", {"decode_piecewise"}, 3),
        ("FULL", {"decode_full"}, 3),
        ("FULL_DECODE_ONLY", {"decode_full"}, 2),
        ("FULL_AND_PIECEWISE", {"decode_full", "decode_piecewise"}, 5),
    ],
)
def test_modes(mode: str, families: set[str], graphs: int) -> None:
    chosen = options(max_num_seqs=8, cudagraph_mode=mode)
    effective = VLLM.effective({"capture": (4, 8, 16)}, chosen)
    assert set(effective.families) == families
    assert effective.graphs == graphs
    table = VLLM.dispatch(effective, chosen)
    decode, mixed = (table.dispatch(name, np.array([7])).bucket[0] for name in ("decode_full", "decode_piecewise"))
    assert decode == (0 if mode == "NONE" else 8)
    assert mixed == (0 if mode in ("NONE", "FULL_DECODE_ONLY") else 8)


def test_sequence_parallelism_filtered_sizes_up_to_020() -> None:
    given = {"tensor_parallel_size": "4", "enable_sp": "true"}
    old = engine("vllm@0.20.0")
    assert old.effective({"capture": (1, 4, 6, 8)}, old.options(given)).families["decode_piecewise"] == (4, 8)
    assert old.allowed(old.options(given)).multiple_of == 4
    assert VLLM.effective({"capture": (1, 4, 6, 8)}, VLLM.options(given)).changes == ()


def test_the_ladder_kept_a_step_of_eight_up_to_0110() -> None:
    """vllm#20098 counts 67 graphs."""
    old = engine("vllm@0.11.0")
    assert len(old.default_lists(old.options({}))["capture"]) == 67


def test_a_single_size_was_a_maximum() -> None:
    old = engine("vllm@0.10.2")
    codes = {problem.code for problem in old.lint({"capture": (64,)}, old.options({}))}
    assert "SINGLE_SIZE_IS_MAX" in codes


def test_untidy_lists_are_noted() -> None:
    assert found("DUPLICATE", (8, 8, 4)) is not None
    assert found("UNSORTED", (8, 8, 4)) is not None
    assert found("UNREACHABLE_SIZE", (4, 8, 64), max_num_seqs=8, cudagraph_mode="FULL_DECODE_ONLY") is not None
    assert found("GRAPHS_OFF", None, enforce_eager=True) is not None
    assert found("MIXED_TAIL_UNCOVERED", (1, 8), max_num_seqs=8) is not None
    assert VLLM.lint({}, options()) == (found("TOP_NOT_COVERED", None),)
