"""What the simulation adds to plain batching, asked for on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.services.cli.conftest import Captune


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """Twenty requests that share the first two of three blocks of 512 tokens."""
    path = tmp_path / "chats.jsonl"
    rows = (
        {"timestamp": 3000 * i, "input_length": 1536, "output_length": 30, "hash_ids": [1, 2, 9 + i]} for i in range(20)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_prefix_cache_and_speculation_show_in_the_report(captune: Captune, chats: Path) -> None:
    options = ("--policy", "sglang", "--kv-tokens", 100_000, "--prefix-cache", "--acceptance", 0.6, "--spec-tokens", 3)
    ran = captune("histogram", chats, *options, "--json")
    assert ran.code == 0, ran.stderr
    serving = ran.document["serving"]
    assert serving["prefix_hit_share"] == pytest.approx(19 * 1024 / (20 * 1536))
    assert 1 < serving["tokens_per_step"] < 4
    assert serving["preemptions"] == 0 and serving["completed"] == 20
    stored = captune("trace", "import", chats, "--json").document["id"]
    again = captune("histogram", stored, *options, "--json").document
    assert again["serving"] == serving


def test_what_does_not_go_together_is_one_sentence(captune: Captune, chats: Path) -> None:
    ran = captune("histogram", chats, "--policy", "sglang", "--acceptance", 0.6)
    assert ran.code == 2 and "needs draft tokens" in ran.reason
