"""Engines by `name@version`, and their options."""

from __future__ import annotations

import pytest

from tuner.engines.registry import ENGINE_NAMES, engine, latest
from workloads.errors import BadUsage


def test_names_and_aliases_lead_to_the_same_engine() -> None:
    small = ("lmdeploy", "tgi", "vllm-ascend", "vllm-gaudi", "mini-sglang", "nano-vllm", "lightllm")
    assert ("vllm", "sglang", "tensorrt-llm", *small) == ENGINE_NAMES
    for alias in ("trtllm@1.3", "tensorrt_llm@1.3", "TensorRT-LLM@1.3", "tensorrt-llm"):
        assert engine(alias).spec == "tensorrt-llm@1.3"
    assert engine("vllm").spec == f"vllm@{latest('vllm')}" == "vllm@0.33.0"
    assert engine("sglang@0.5.23").notes == ()
    assert engine("vllm@0.33.0+cu129").notes == ()


def test_a_newer_version_is_answered_with_a_note() -> None:
    newer = engine("vllm@0.34.0")
    assert newer.notes == ("vllm 0.34.0 is not known here; answered with the rules of 0.33.0",)
    options = newer.options({})
    assert newer.default_lists(options) == engine("vllm@0.33.0").default_lists(options)
    assert "VERSION_NOTE" in {problem.code for problem in newer.lint({}, options)}


@pytest.mark.parametrize(
    ("spec", "says"),
    [("vllm@abc", "'abc' is not a version"), ("vlm@1", "vllm, sglang, tensorrt-llm"), ("", "not a known engine")],
)
def test_an_impossible_engine_is_bad_usage(spec: str, says: str) -> None:
    with pytest.raises(BadUsage, match=says):
        engine(spec)


def test_options_are_written_as_the_engine_writes_them() -> None:
    options = engine("vllm").options({"--max-num-seqs": "512", "tp_size": "8", "cudagraph_mode": "full_decode_only"})
    assert (options.max_num_seqs, options.tensor_parallel_size, options.cudagraph_mode) == (512, 8, "FULL_DECODE_ONLY")
    options = engine("sglang@0.5.13").options({"cuda_graph_max_bs": "64", "enable_dp_attention": "1", "dp_size": "1"})
    assert options.cuda_graph_max_bs_decode == 64
    assert options.enable_dp_attention is True


@pytest.mark.parametrize(
    ("spec", "raw", "field", "says"),
    [
        ("vllm", {"max_num_seq": "8"}, "max_num_seq", "did you mean max_num_seqs"),
        ("sglang", {"zzz": "1"}, "zzz", "it knows attn_cp_size"),
        ("vllm", {"max_num_seqs": "many"}, "max_num_seqs", "a whole number, not 'many'"),
        ("vllm", {"max_num_seqs": "0"}, "max_num_seqs", "at least 1"),
        ("vllm", {"enable_lora": "maybe"}, "enable_lora", "true or false"),
        ("vllm", {"cudagraph_mode": "HALF"}, "cudagraph_mode", "one of NONE"),
        ("vllm", {"gpu_arch": "hopper"}, "gpu_arch", "sm90"),
        ("vllm", {"tp_size": "2", "tensor_parallel_size": "2"}, "tensor_parallel_size", "given twice"),
        ("vllm", {"max_num_seqs": "512", "max_num_batched_tokens": "100"}, "max_num_batched_tokens", "at least max_"),
        ("sglang", {"gpu_memory_gib": "big"}, "gpu_memory_gib", "a number"),
        ("sglang", {"enable_dp_attention": "true", "tp_size": "8", "dp_size": "3"}, "dp_size", "divide tp_size"),
        ("trtllm", {"max_num_tokens": "2", "max_draft_len": "3"}, "max_num_tokens", "at least 4"),
    ],
)
def test_a_wrong_option_names_itself(spec: str, raw: dict[str, str], field: str, says: str) -> None:
    with pytest.raises(BadUsage, match=says) as caught:
        engine(spec).options(raw)
    assert caught.value.field == field


@pytest.mark.parametrize("spec", ENGINE_NAMES)
def test_a_list_of_another_engine_is_bad_usage(spec: str) -> None:
    chosen = engine(spec)
    with pytest.raises(BadUsage, match="has no list 'train'"):
        chosen.effective({"train": (1,)}, chosen.options({}))
    with pytest.raises(BadUsage, match="at least 1"):
        chosen.effective({chosen.list_names[0]: (0, 1)}, chosen.options({}))
