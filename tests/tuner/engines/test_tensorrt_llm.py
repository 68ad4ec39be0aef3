"""TensorRT-LLM 1.3 (PyTorch backend): golden vectors and real threads."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.engines.base import Problem
from tuner.engines.registry import engine
from tuner.engines.tensorrt_llm.options import TensorrtLlmOptions

TRTLLM = engine("tensorrt-llm@1.3")


def options(**given: object) -> TensorrtLlmOptions:
    made: TensorrtLlmOptions = TRTLLM.options({key: str(value) for key, value in given.items()})
    return made


def found(code: str, sizes: tuple[int, ...] | None, **given: object) -> Problem | None:
    lists = {} if sizes is None else {"decode": sizes}
    hits = [problem for problem in TRTLLM.lint(lists, options(**given)) if problem.code == code]
    return hits[0] if hits else None


@pytest.mark.parametrize(
    ("largest", "padded", "exact"), [(128, 19, 34), (256, 21, 35), (512, 25, 36), (1024, 33, 37), (2048, 49, 38)]
)
def test_generated_ladder(largest: int, padded: int, exact: int) -> None:
    """TensorRT-LLM pull request 12895."""
    for padding, length in ((True, padded), (False, exact)):
        chosen = options(cuda_graph_max_batch_size=largest, enable_padding=padding)
        sizes = TRTLLM.default_lists(chosen)["decode"]
        assert (len(sizes), sizes[-1]) == (length, largest)


def test_neither_list_nor_maximum_gives_128() -> None:
    assert TRTLLM.default_lists(options())["decode"][-1] == 128
    problem = found("TOP_NOT_COVERED", None)
    assert problem is not None
    assert "129 to 2048" in problem.message


def test_the_first_size_above_the_limit_becomes_the_limit() -> None:
    chosen = options(max_batch_size=100)
    effective = TRTLLM.effective({"decode": (1, 8, 128, 256)}, chosen)
    assert effective.families["decode_full"] == (1, 8, 100)
    assert [(c.requested, c.effective) for c in effective.changes] == [(128, 100), (256, None)]
    bare = options(max_batch_size=100, enable_padding=False)
    assert TRTLLM.effective({"decode": (1, 8, 128, 256)}, bare).families["decode_full"] == (1, 8)


def test_draft_tokens_lower_the_limit() -> None:
    allowed = TRTLLM.allowed(options(max_batch_size=512, max_num_tokens=1024, max_draft_len=3))
    assert (allowed.largest, allowed.reachable) == (256, 256)


def test_padding_off_replays_exact_sizes_only() -> None:
    for padding, buckets in ((True, [4, 4]), (False, [0, 4])):
        chosen = options(enable_padding=padding)
        table = TRTLLM.dispatch(TRTLLM.effective({"decode": (4, 8)}, chosen), chosen)
        assert table.dispatch("decode_full", np.array([3, 4])).bucket.tolist() == buckets
    assert found("EXACT_ONLY", (4, 8), enable_padding=False) is not None


def test_case_49_autodeploy_has_no_fallback() -> None:
    """TensorRT-LLM#7675 (case 49): max_batch_size above max(list) asserts in AutoDeploy, elsewhere it runs eager."""
    given = {"backend": "_autodeploy", "max_batch_size": 64}
    problem = found("AUTODEPLOY_TOP", (1, 2, 32), **given)
    assert problem is not None
    assert problem.fix == [1, 2, 32, 64]
    assert TRTLLM.effective({"decode": tuple(problem.fix)}, options(**given)).refused is None
    assert TRTLLM.effective({"decode": (1, 2, 32)}, options(max_batch_size=64)).refused is None
    assert TRTLLM.allowed(options(**given)).required == (64,)


@pytest.mark.parametrize(
    ("sizes", "given", "code"),
    [
        ((), {}, "EMPTY_LIST"),
        ((1, 2), {"cuda_graph_max_batch_size": 4}, "MAX_MISMATCH"),
        ((64,), {"max_batch_size": 8, "enable_padding": False}, "EMPTY_AFTER_FILTER"),
    ],
)
def test_refused_lists(sizes: tuple[int, ...], given: dict[str, object], code: str) -> None:
    assert TRTLLM.effective({"decode": sizes}, options(**given)).refused is not None
    problem = found(code, sizes, **given)
    assert problem is not None
    assert problem.severity == "error"


def test_sizes_above_the_limit_are_reported() -> None:
    problem = found("ABOVE_LIMIT", (1, 8, 128), max_batch_size=16)
    assert problem is not None
    assert problem.fix == [1, 8, 16]
