"""Exports: golden files, and the round trip through the engine's own normalisation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tuner.engines.base import Lists, Provenance
from tuner.engines.registry import engine
from workloads.errors import BadUsage

GOLDEN = Path(__file__).parent / "golden"
PROVENANCE = Provenance("rec-7f3a", "9c1e2d", "2026-11-02T10:00:00+00:00")
SPEC = {"max_num_seqs": "6", "num_speculative_tokens": "6"}

CASES: list[tuple[str, str, dict[str, str], Lists]] = [
    ("vllm-0.33.0.txt", "vllm@0.33.0", {"max_num_seqs": "512"}, {"capture": (1, 2, 4, 16, 64, 256, 512)}),
    ("vllm-0.33.0-spec.txt", "vllm@0.33.0", SPEC, {"capture": (7, 14, 28, 42)}),
    ("vllm-0.11.1.txt", "vllm@0.11.1", {}, {"capture": (1, 8, 64, 512)}),
    ("vllm-0.11.0.txt", "vllm@0.11.0", {}, {"capture": (1, 8, 64, 512)}),
    ("sglang-0.5.23.txt", "sglang@0.5.23", {"max_running_requests": "100"}, {"decode": (1, 4, 32, 256)}),
    ("sglang-0.5.14.txt", "sglang@0.5.14", {}, {"decode": (1, 4, 32), "prefill": (512, 1024)}),
    ("sglang-0.5.13.txt", "sglang@0.5.13", {}, {"decode": (1, 4, 32), "prefill": (512, 1024)}),
    ("sglang-0.5.8.txt", "sglang@0.5.8", {}, {"decode": (1, 4, 32), "prefill": (512, 1024)}),
    ("sglang-no-prefill.txt", "sglang@0.5.23", {}, {"decode": (1, 4, 32), "prefill": ()}),
    ("vllm-0.8.5.txt", "vllm@0.8.5", {}, {"capture": (1, 8, 64)}),
    ("sglang-0.5.4.txt", "sglang@0.5.4", {}, {"decode": (1, 4), "prefill": (64, 512)}),
    ("tensorrt-llm-1.2.yaml", "tensorrt-llm@1.2", {}, {"decode": (1, 2), "prefill": (64, 512)}),
    ("tensorrt-llm-1.3-prefill.yaml", "tensorrt-llm@1.3", {}, {"decode": (1, 2), "prefill": (64, 512)}),
    ("lmdeploy.txt", "lmdeploy@0.10", {"max_batch_size": "64"}, {"decode": (1, 8)}),
    ("tgi.env", "tgi@3.3", {}, {"decode": (1, 8, 32)}),
    ("vllm-ascend.txt", "vllm-ascend@0.18.0", {"graph_slots": "3"}, {"capture": (1, 8, 64, 128)}),
    ("vllm-gaudi.txt", "vllm-gaudi@0.20", {"max_num_seqs": "16", "max_num_batched_tokens": "512"}, {"decode": (1, 16)}),
    ("mini-sglang.py.txt", "mini-sglang@0.1", {}, {"decode": (1, 8, 64)}),
    ("nano-vllm.py.txt", "nano-vllm@0.2", {"max_num_seqs": "20"}, {"decode": (1, 8)}),
    ("lightllm.txt", "lightllm@1.1", {}, {"decode": (1, 2, 3, 4, 8, 12, 16)}),
    ("tensorrt-llm-1.3.yaml", "tensorrt-llm@1.3", {"max_batch_size": "64"}, {"decode": (1, 2, 8, 32, 128)}),
]


@pytest.mark.parametrize(("file", "spec", "raw", "lists"), CASES, ids=[case[0] for case in CASES])
def test_the_text_is_the_one_on_file(file: str, spec: str, raw: dict[str, str], lists: Lists) -> None:
    chosen = engine(spec)
    export = chosen.export(lists, chosen.options(raw), PROVENANCE)
    assert export.text == (GOLDEN / file).read_text()
    assert "go back" in export.watch


@pytest.mark.parametrize(
    ("file", "spec", "raw", "lists"),
    [
        ("vllm-0.33.0.files", "vllm@0.33.0", {"max_num_seqs": "64"}, {"capture": (1, 8, 64)}),
        ("sglang-0.5.23.files", "sglang@0.5.23", {}, {"decode": (1, 8), "prefill": ()}),
        ("tensorrt-llm-1.3.files", "tensorrt-llm@1.3", {}, {"decode": (1, 8)}),
        ("tgi-3.3.files", "tgi@3.3", {}, {"decode": (1, 8)}),
        ("vllm-gaudi-0.20.files", "vllm-gaudi@0.20", {"max_num_batched_tokens": "256"}, {"decode": (1, 8)}),
    ],
)
def test_the_files_are_those_on_file(file: str, spec: str, raw: dict[str, str], lists: Lists) -> None:
    chosen = engine(spec)
    files = chosen.export(lists, chosen.options(raw), PROVENANCE).files
    assert all(
        text.splitlines()[1] == "# recommendation rec-7f3a, digest 9c1e2d, 2026-11-02T10:00:00+00:00"
        for text in files.values()
    )
    shown = "".join(f"=== {name}\n{text}" for name, text in files.items())
    assert shown == (GOLDEN / file).read_text()


def test_vllm_asks_for_what_it_captures_and_the_maximum_is_the_last() -> None:
    chosen = engine("vllm@0.33.0")
    options = chosen.options({"max_num_seqs": "64"})
    text = chosen.export({"capture": (1, 8, 8, 64, 9000)}, options, Provenance()).text
    match = re.search(r"--compilation-config '(.*)'", text)
    assert match is not None
    config = json.loads(match.group(1))
    assert config["cudagraph_capture_sizes"] == [1, 8, 64]
    assert config["max_cudagraph_capture_size"] == 64
    assert "None" not in text


def test_sglang_leaves_alone_what_was_not_asked_for() -> None:
    chosen = engine("sglang@0.5.23")
    text = chosen.export({"decode": (1, 2)}, chosen.options({}), Provenance()).text
    assert "prefill" not in text


def test_tensorrt_llm_turns_padding_on_and_hands_out_a_file() -> None:
    chosen = engine("tensorrt-llm@1.3")
    export = chosen.export({"decode": (1, 2, 8)}, chosen.options({"enable_padding": "false"}), PROVENANCE)
    assert export.files["captune.yaml"] == export.text
    assert yaml.safe_load(export.text) == {"cuda_graph_config": {"enable_padding": True, "batch_sizes": [1, 2, 8]}}


@pytest.mark.parametrize(
    ("spec", "lists", "says"),
    [
        ("vllm@0.33.0", {"capture": ()}, "would not start"),
        ("vllm@0.11.0", {"capture": (8,)}, "reads a single size as a maximum"),
        ("sglang@0.5.23", {"decode": ()}, "would not start"),
        ("sglang@0.5.3", {"prefill": (8,)}, "has no flag for prefill sizes"),
        ("tensorrt-llm@1.3", {"decode": ()}, "would not start"),
    ],
)
def test_what_cannot_be_exported_is_said(spec: str, lists: Lists, says: str) -> None:
    chosen = engine(spec)
    with pytest.raises(BadUsage, match=says):
        chosen.export(lists, chosen.options({}), Provenance())
