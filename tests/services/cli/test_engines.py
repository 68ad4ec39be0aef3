"""Engine rules as a user meets them: lint, export and --running on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cli.main import run

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """The command inside this process, for its speed; processes of their own stand in test_contract.py."""
    monkeypatch.setenv("CAPTUNE_DATA_DIR", str(tmp_path / "data"))

    def invoke(*arguments: object, code: int = 0) -> dict[str, Any]:
        assert run([*map(str, arguments), "--json"]) == code
        document = json.loads(capfd.readouterr().out)
        assert isinstance(document, dict)
        return document

    return invoke


def sets(**given: object) -> list[str]:
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


@pytest.mark.parametrize(
    ("engine", "given", "lengths"),
    [
        # SGLang arg_groups/cuda_graph_hook.py:500-532 and :480-497
        *[("sglang@0.5.23", {"cuda_graph_max_bs_decode": m}, {"decode": n}) for m, n in
          ((8, 4), (32, 8), (48, 10), (100, 17), (160, 24), (256, 36), (512, 52))],
        *[("sglang@0.5.23", {"cuda_graph_max_bs_prefill": m}, {"prefill": n}) for m, n in
          ((2048, 42), (4096, 50), (8192, 58), (16384, 74))],
        # vLLM config/vllm.py:2398-2655
        ("vllm@0.33.0", {"max_num_seqs": 256, "max_num_batched_tokens": 2048}, {"capture": 51}),
        ("vllm@0.33.0", {"max_num_seqs": 1024, "max_num_batched_tokens": 8192}, {"capture": 51}),
        ("vllm@0.33.0", {"max_num_batched_tokens": 16384, "gpu_arch": "sm100"}, {"capture": 83}),
        # TensorRT-LLM pull request 12895
        *[("tensorrt-llm@1.3", {"cuda_graph_max_batch_size": m, "enable_padding": p}, {"decode": n}) for m, p, n in
          ((128, "true", 19), (256, "true", 21), (512, "true", 25), (1024, "true", 33), (2048, "true", 49),
           (128, "false", 34), (256, "false", 35), (512, "false", 36), (1024, "false", 37), (2048, "false", 38))],
        ("lmdeploy@0.10", {"max_batch_size": 256}, {"decode": 9}),
        ("tgi@3.3", {}, {"decode": 6}),
        ("mini-sglang", {"cuda_graph_max_bs": 256}, {"decode": 35}),
        ("nano-vllm", {"max_num_seqs": 512}, {"decode": 36}),
        ("lightllm", {}, {"decode": 46}),
        ("vllm-ascend", {"max_num_seqs": 512}, {"capture": 51}),
        ("vllm-gaudi", {"max_num_seqs": 64}, {"decode": 8}),
    ],
)  # fmt: skip
def test_lint_default_reproduces_the_documented_lists(
    call: Call, engine: str, given: dict[str, object], lengths: dict[str, int]
) -> None:
    answer = call("lint", "--engine", engine, "--default", *sets(**given))
    assert {name: len(answer["requested"][name]) for name in lengths} == lengths


def test_golden_normalisations(call: Call) -> None:
    """Golden vectors of SGLang's and vLLM's filters."""
    dp = sets(enable_dp_attention="true", tp_size=8, dp_size=2)
    answer = call("lint", "--engine", "sglang@0.5.23", "--sizes", "1,2,4,8,12,16", *dp)
    assert answer["effective"]["decode_full"] == [4, 8, 12, 16]
    answer = call("lint", "--engine", "sglang@0.5.23", "--sizes", "1-64,256", *sets(max_running_requests=100))
    assert answer["effective"]["decode_full"][-1] == 100
    answer = call("lint", "--engine", "vllm@0.33.0", "--default", *sets(max_num_seqs=256, max_num_batched_tokens=2048))
    assert (len(answer["effective"]["decode_full"]), answer["graphs"]) == (35, 86)
    answer = call("lint", "--engine", "vllm@0.33.0", "--default", *sets(max_num_seqs=6, max_num_batched_tokens=8192))
    assert answer["requested"]["capture"] == [1, 2, 4, 6, 8]
    spec = sets(num_speculative_tokens=2, use_v2_model_runner="false")
    answer = call("lint", "--engine", "vllm@0.33.0", "--sizes", "1,2,4,8", *spec)
    assert answer["effective"]["decode_full"] == [3, 6]


@pytest.mark.parametrize(
    ("engine", "sizes", "given", "code", "exit_code"),
    [
        ("sglang@0.5.23", None, {"gpu_memory_gib": 48, "max_running_requests": 4096}, "TOP_NOT_COVERED", 0),  # 33483
        ("vllm@0.33.0", "1,2,4,8,96,104,200", {"max_num_seqs": 100}, "TOP_FALLS_TO_PIECEWISE", 0),  # vllm#57355
        ("vllm@0.33.0", "16,2048", {"max_num_seqs": 256, "max_num_batched_tokens": 700}, "ABOVE_LIMIT", 0),  # 40734
        (
            "vllm@0.33.0",
            None,
            {"max_num_seqs": 6, "num_speculative_tokens": 6, "max_cudagraph_capture_size": 42},
            "TRUNCATED",
            0,
        ),  # 54933
        ("vllm@0.33.0", "1,16,24,32", {"max_num_seqs": 2, "num_speculative_tokens": 15}, "NOT_MULTIPLE", 0),  # 46324
        ("vllm@0.33.0", "9000", {}, "EMPTY_AFTER_FILTER", 1),
        ("vllm@0.33.0", "1,2,4", {"max_cudagraph_capture_size": 8}, "MAX_MISMATCH", 1),
        ("vllm@0.10.2", "64", {}, "SINGLE_SIZE_IS_MAX", 1),
        ("vllm@0.33.0", "4,64", {"max_num_seqs": 8, "cudagraph_mode": "FULL_DECODE_ONLY"}, "UNREACHABLE_SIZE", 0),
        ("vllm@0.33.0", None, {"mamba_cache_blocks": 856}, "MAMBA_BLOCKS", 1),  # vllm#49064
        ("vllm@0.33.0", None, {"num_gpu_blocks_override": 5, "max_model_len": 4096}, "KV_BELOW_ONE_REQUEST", 1),
        ("sglang@0.5.23", None, {"weights_gib": 141, "kv_bytes_per_token": 70000}, "MEMORY_ABOVE_BUDGET", 1),  # 24453
        ("vllm@0.8.5", "1,8", {}, "FLAG_ABSENT", 0),
        ("tensorrt-llm@1.3", "1,32", {"backend": "_autodeploy", "max_batch_size": 64}, "AUTODEPLOY_TOP", 1),  # 7675
        ("lightllm", "1,5,64", {}, "NOT_EXPRESSIBLE", 0),
        ("vllm-ascend", "1-40", {"graph_slots": 8}, "GRAPH_SLOTS", 0),  # vllm-ascend#1168
    ],
)
def test_lint_finds_what_the_thread_reports(
    call: Call, engine: str, sizes: str | None, given: dict[str, object], code: str, exit_code: int
) -> None:
    asked = ["--default"] if sizes is None else ["--sizes", sizes]
    answer = call("lint", "--engine", engine, *asked, *sets(**given), code=exit_code)
    problem = next(problem for problem in answer["problems"] if problem["code"] == code)
    assert problem["message"]
    assert (problem["severity"] == "error") == (exit_code == 1)


@pytest.mark.parametrize(
    ("engine", "carries"),
    [
        ("vllm@0.33.0", "arguments.txt"),
        ("vllm@0.10.2", "arguments.txt"),
        ("vllm@0.8.5", "vllm.yaml"),
        ("sglang@0.5.23", "sglang.yaml"),
        ("sglang@0.5.13", "arguments.txt"),
        ("sglang@0.5.4", "arguments.txt"),
        ("tensorrt-llm@1.3", "captune.yaml"),
        ("lmdeploy@0.10", "arguments.txt"),
        ("tgi@3.3", "captune.env"),
        ("vllm-ascend@0.23.0", "arguments.txt"),
        ("vllm-gaudi@0.20", "gaudi-buckets.txt"),
        ("mini-sglang@0.1", "minisgl_config.py"),
        ("nano-vllm@0.2", "model_runner.patch.py"),
        ("lightllm@1.1", "arguments.txt"),
    ],
)
def test_every_export_is_written_in_every_form_and_read_back(
    call: Call, tmp_path: Path, engine: str, carries: str
) -> None:
    folder = tmp_path / "out"
    answer = call("export", "--engine", engine, "--sizes", "1,2,4,8,64", "--out", folder)
    assert answer["watch"] and "go back" in answer["watch"]
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written.keys() == answer["files"].keys()
    deployed = {"kubernetes-patch.yaml", "helm-values.yaml", "docker-compose.override.yaml"}
    assert {carries, *(set() if carries.endswith(".py") else deployed)} <= written.keys()
    for name, content in written.items():
        assert content.startswith(f"# Capture sizes by Captune for {engine}\n"), name
        if name.endswith(".yaml"):
            assert yaml.safe_load(content), name
    again = call("lint", "--running", folder / carries)
    assert again["engine"] == engine
    assert again["effective"] == call("lint", "--engine", engine, "--sizes", "1,2,4,8,64")["effective"] or (
        engine.startswith("tensorrt") and again["effective"] == answer["effective"]
    )


def test_export_shows_the_difference_to_what_runs(call: Call) -> None:
    command = "vllm serve m --max-num-seqs 64 --cudagraph-capture-sizes 1 2 4 64"
    answer = call("export", "--sizes", "1,8,64", "--running", command)
    assert answer["engine"] == "vllm@0.33.0"
    assert "-1 2 4 64\n+1 8 64\n" in answer["diff"]
    assert call("export", "--sizes", "1,2,4,64", "--running", command)["diff"] == ""


def test_what_runs_can_be_scored_and_audited(call: Call, tmp_path: Path) -> None:
    histogram = tmp_path / "h.csv"
    histogram.write_text("size,count\n1,100\n5,20\n9,300\n30,10\n")
    command = "python -m sglang.launch_server --model-path m --cuda-graph-bs-decode 1 8 16 --max-running-requests 64"
    score = call("score", histogram, "--profile", "h200-llama-3.1-8b", "--running", command)
    assert score["lists"] == {"decode": [1, 8, 16]}
    audit = call("audit", histogram, "--running", command)
    assert audit["present"]["lists"]["decode"] == [1, 8, 16]
    assert audit["above_ceiling"] == pytest.approx(10 / 430)


def test_what_cannot_be_understood_is_one_sentence(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    binary = tmp_path / "x.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    calls = [
        (["lint", "--running", "ls -la"], "--running: does not say which engine"),
        (["lint", "--running", str(binary)], "is no text file"),
        (["lint", "--running", "vllm serve m --max-num-seqs 0"], "max_num_seqs"),
    ]
    for arguments, says in calls:
        assert run(arguments) == 2
        assert says in capfd.readouterr().err
