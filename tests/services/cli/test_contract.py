"""Exit codes, one JSON object on stdout, one sentence on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.cli.conftest import Captune

PROFILE = {
    "schema": 1,
    "name": "made-up",
    "families": {
        "decode_full": {
            "points": [
                {"size": 1, "step_ms": 6.0, "fallback_ms": 14.0},
                {"size": 4, "step_ms": 6.2, "fallback_ms": 14.0},
                {"size": 8, "step_ms": 7.4, "fallback_ms": 15.0},
                {"size": 16, "step_ms": 6.9, "fallback_ms": 16.0},
                {"size": 32, "step_ms": 9.0, "fallback_ms": 20.0},
            ]
        }
    },
}
HISTOGRAM = "size,count\n1,100\n5,20\n9,300\n30,10\n"
Write = Callable[[str, str | bytes], Path]


def test_no_command_mixes_words_into_its_json(captune: Captune, write: Write) -> None:
    histogram, profile = write("h.csv", HISTOGRAM), write("p.json", json.dumps(PROFILE))
    calls: list[tuple[object, ...]] = [
        ("trace", "inspect", histogram),
        ("trace", "import", histogram),
        ("histogram", histogram),
        ("score", histogram, "--profile", profile, "--sizes", "1,8,32"),
        ("solve", histogram, "--profile", profile),
        ("lint", "--engine", "vllm@0.33.0", "--default"),
        ("export", "--engine", "sglang@0.5.23", "--sizes", "1,2,4"),
        ("audit", histogram, "--engine", "sglang@0.5.23", "--sizes", "1,8,32"),
        ("profile", "show", profile),
        ("profile", "list"),
    ]
    for call in calls:
        ran = captune(*call, "--json")
        assert ran.code == 0, (call, ran.stderr)
        assert ran.document, call
        assert ran.stdout.count("\n") == 1, call


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("lint", "--engine", "nosuch@1.0", "--default"), "nosuch"),
        (("lint", "--engine", "vllm@0.33.0", "--default", "--set", "max_num_sequences=4"), "max_num_sequences"),
        (("lint", "--engine", "vllm@0.33.0", "--default", "--set", "max_num_seqs=many"), "max_num_seqs"),
        (("lint", "--engine", "vllm@0.33.0"), "--sizes"),
        (("lint", "--engine", "vllm@0.33.0", "--sizes", "1,0"), "0"),
        (("lint", "--engine", "vllm@0.33.0", "--sizes", "one"), "one"),
        (("lint", "--engin", "vllm@0.33.0"), "--engin"),
        (("solve", "nowhere.csv", "--profile", "p.json"), "nowhere.csv"),
        (("export", "--engine", "vllm@0.33.0"), "--recommendation"),
        (("score", "nowhere.csv"), "--profile"),
        (("tune", "nowhere.csv", "--profile", "p.json"), "--engine"),
        (("tune", "nowhere.csv", "--engine", "vllm@0.33.0"), "--profile"),
        (("nonsense",), "nonsense"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(captune: Captune, arguments: tuple[str, ...], word: str) -> None:
    ran = captune(*arguments)
    assert ran.code == 2
    assert ran.stdout == ""
    assert word in ran.reason


def test_a_lint_error_is_exit_code_1(captune: Captune) -> None:
    ran = captune(
        "lint", "--engine", "vllm@0.33.0", "--sizes", "4096", "--set", "max_num_batched_tokens=2048", "--json"
    )
    assert ran.code == 1
    assert any(problem["severity"] == "error" for problem in ran.document["problems"])


def test_reading_a_file_creates_no_database(captune: Captune, write: Write, data_dir: Path) -> None:
    histogram, profile = write("h.csv", HISTOGRAM), write("p.json", json.dumps(PROFILE))
    assert captune("solve", histogram, "--profile", profile, "--json").code == 0
    assert not data_dir.exists()


def test_help_names_every_command(captune: Captune) -> None:
    ran = captune("--help")
    assert ran.code == 0
    for name in ("audit", "trace", "histogram", "score", "solve", "tune", "profile", "export", "lint", "serve"):
        assert name in ran.stdout
