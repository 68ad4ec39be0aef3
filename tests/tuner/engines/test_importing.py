"""What people run, read back: command lines, images, compose and Kubernetes files, YAML, logs, and our own exports."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.engines.test_rules import Case, cases
from tuner.engines.base import Lists, Provenance
from tuner.engines.importing import Present, import_observation, import_text
from tuner.engines.registry import engine
from workloads.errors import BadUsage
from workloads.traces.records import EngineObservation

COMPOSE = """
services:
  web: {image: nginx}
  llm:
    image: lmsysorg/sglang:v0.5.13-cu126
    command: python3 -m sglang.launch_server --model-path m --tp 8 --cuda-graph-bs 1 2 4 --max-running-requests 64
"""
KUBERNETES = """
kind: Deployment
spec:
  template:
    spec:
      containers:
      - name: engine
        image: vllm/vllm-openai:v0.12.0
        args: ["--model", "m", "--max-num-seqs", "128", "--compilation-config", '{"cudagraph_capture_sizes": [1, 128]}']
"""
TRTLLM = """
max_batch_size: 64
max_num_tokens: 4096
kv_cache_config: {free_gpu_memory_fraction: 0.8}
cuda_graph_config:
  batch_sizes: [1, 8, 64]
prefill_capture_num_tokens: [512, 1024]
"""


@pytest.mark.parametrize(
    ("text", "spec", "raw", "lists"),
    [
        (
            "vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 256 --tensor-parallel-size=2 -O3 "
            "--cudagraph-capture-sizes 1 2 4 256",
            "vllm@0.33.0",
            {"max_num_seqs": "256", "tensor_parallel_size": "2"},
            {"capture": (1, 2, 4, 256)},
        ),
        (
            "VLLM_USE_V2_MODEL_RUNNER=0 vllm serve m --speculative-config "
            '\'{"method": "eagle", "num_speculative_tokens": 3, '
            '"num_speculative_tokens_per_batch_size": [[1, 64, 3], [65, 512, 1]]}\' '
            '-cc \'{"cudagraph_mode": "FULL_DECODE_ONLY", "max_cudagraph_capture_size": 64}\' --enforce-eager',
            "vllm@0.33.0",
            {
                "use_v2_model_runner": "0",
                "num_speculative_tokens": "3",
                "num_speculative_tokens_per_batch_size": "1-64:3,65-512:1",
                "cudagraph_mode": "FULL_DECODE_ONLY",
                "max_cudagraph_capture_size": "64",
                "enforce_eager": "true",
            },
            {},
        ),
        (
            "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model m --cuda-graph-sizes 1 8 64",
            "vllm@0.11.0",
            {},
            {"capture": (1, 8, 64)},
        ),
        (
            "python -m sglang.launch_server --model-path m --tp 8 --dp 8 --enable-dp-attention \\\n"
            '  --cuda-graph-config \'{"decode": {"bs": [8, 16], "max_bs": 16}, "prefill": {"backend": "disabled"}}\'',
            "sglang@0.5.23",
            {"tp_size": "8", "dp_size": "8", "enable_dp_attention": "true", "cuda_graph_max_bs_decode": "16"},
            {"decode": (8, 16), "prefill": ()},
        ),
        (COMPOSE, "sglang@0.5.13", {"tp_size": "8", "max_running_requests": "64"}, {"decode": (1, 2, 4)}),
        (KUBERNETES, "vllm@0.12.0", {"max_num_seqs": "128"}, {"capture": (1, 128)}),
        (
            TRTLLM,
            "tensorrt-llm@1.3",
            {
                "max_batch_size": "64",
                "max_num_tokens": "4096",
                "free_gpu_memory_fraction": "0.8",
                "enable_padding": "false",
            },
            {"decode": (1, 8, 64), "prefill": (512, 1024)},
        ),
        ("CUDA_GRAPHS=1,2,4 text-generation-launcher --model-id m", "tgi@3.3", {}, {"decode": (1, 2, 4)}),
        ("text-generation-launcher --model-id m --cuda-graphs 0", "tgi@3.3", {}, {"decode": ()}),
        (
            "lmdeploy serve api_server m --max-batch-size 64 --cudagraph-capture-batch-sizes 1 4 8",
            "lmdeploy@0.18",
            {"max_batch_size": "64"},
            {"decode": (1, 4, 8)},
        ),
        (
            "python -m lightllm.server.api_server --graph_max_batch_size 64 --graph_split_batch_size 8",
            "lightllm@1.1",
            {"graph_max_batch_size": "64", "graph_split_batch_size": "8"},
            {},
        ),
    ],
)
def test_what_people_run_is_understood(text: str, spec: str, raw: dict[str, str], lists: Lists) -> None:
    present = import_text(text)
    assert present.engine.spec == spec
    assert dict(present.raw) == raw
    assert dict(present.lists) == lists


def test_an_engine_that_is_named_wins_and_a_missing_version_is_said() -> None:
    present = import_text("vllm serve m --max-num-seqs 8", "vllm@0.20.0")
    assert present.engine.spec == "vllm@0.20.0"
    assert any("no version is given" in note for note in import_text("vllm serve m -tp 2").notes)
    assert present.captured_lists()["capture"] == (1, 2, 4, 8, 16)


def test_a_start_up_log_is_read_like_a_command_line() -> None:
    log = EngineObservation("sglang", "0.5.13", {"decode": (1, 2, 8)}, {"tp_size": "4", "host": "x"}, None, None, None)
    present = import_observation(log)
    assert (present.engine.spec, dict(present.raw)) == ("sglang@0.5.13", {"tp_size": "4"})
    assert present.lists == {"decode": (1, 2, 8)}
    with pytest.raises(BadUsage, match="which engine"):
        import_observation(EngineObservation())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ls -la", "which engine"),
        ("hello", "no arguments"),
        ("vllm serve 'm", "no command line"),
        ("vllm serve m --cudagraph-capture-sizes 1 two", "'two' is not a size"),
        ("vllm serve m --compilation-config '{oops'", "no JSON"),
        ("vllm serve m --max-num-seqs 0", "at least 1"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, says: str) -> None:
    with pytest.raises(BadUsage, match=says):
        import_text(text)


def _exported(case: Case) -> tuple[str, dict[str, str], Lists] | None:
    chosen, raw, lists = case
    options = chosen.options(raw)
    asked = {name: sizes for name, sizes in lists.items() if sizes}
    if chosen.list_names[0] not in asked or chosen.effective(asked, options).refused is not None:
        return None
    if chosen.decode_family not in chosen.effective(asked, options).families and chosen.name != "vllm":
        return None
    export = chosen.export(asked, options, Provenance("rec-1", "abc", "2026-11-02"))
    # Where the engine reads a file of its own beside arguments, the other files only point at it.
    own = {name: text for name, text in export.files.items() if text == export.text}
    carriers = ("arguments.txt", "captune.env", "vllm.yaml", "sglang.yaml", "docker-compose.override.yaml")
    others = {name: text for name, text in export.files.items() if name in carriers}
    return export.text, own or others, asked


@settings(max_examples=250, deadline=None)
@given(cases())
def test_export_then_import_is_the_identity(case: Case) -> None:
    """Engine, version and options come back from the header, the lists from the configuration itself."""
    made = _exported(case)
    if made is None:
        return
    chosen, raw, _ = case
    text, files, asked = made
    options = chosen.options(raw)
    for content in (text, *files.values()):
        present = import_text(content)
        assert present.engine.spec == chosen.spec
        if chosen.name not in ("tensorrt-llm", "lightllm"):  # these write options of their own beside the list
            assert present.options == options
        assert _families(present, present.lists) == _families(present, asked)


def _families(present: Present, lists: Lists) -> object:
    """What a list leads to by the options of today; engines without a list are compared by what they capture."""
    wanted = {name: sizes for name, sizes in lists.items() if sizes}
    return present.engine.effective(wanted, present.options).families


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    for prefix in ("vllm serve ", "python -m sglang.launch_server --cuda-graph-bs ", ""):
        try:
            import_text(prefix + text)
        except BadUsage as error:
            assert str(error)


def test_the_json_of_an_export_is_the_list_itself() -> None:
    chosen = engine("vllm@0.33.0")
    text = chosen.export({"capture": (1, 8)}, chosen.options({"max_num_seqs": "8"}), Provenance()).text
    assert json.loads(text.split("'")[1])["cudagraph_capture_sizes"] == [1, 8]
