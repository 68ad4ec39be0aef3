"""`captune verify` on a CPU: the list is captured and replayed here, and the answer says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.cli.conftest import Captune
from tests.services.cli.test_contract import PROFILE

Write = Callable[[str, str | bytes], Path]
HISTOGRAM = "size,count\n1,100\n5,20\n9,300\n30,10\n40,1\n"


@pytest.fixture
def files(write: Write) -> tuple[Path, Path]:
    return write("h.csv", HISTOGRAM), write("p.json", json.dumps(PROFILE | {"device": {"name": "NVIDIA H200"}}))


def test_a_list_is_replayed_here_and_compared(captune: Captune, files: tuple[Path, Path]) -> None:
    histogram, profile = files
    ran = captune(
        *("verify", histogram, "--profile", profile, "--sizes", "1,8,32", "--model", "tiny-llama"),
        *("--device", "cpu", "--json"),
        timeout_s=300,
    )
    assert ran.code == 0, ran.stderr
    answer = ran.document
    assert answer["device"] == "cpu" and not answer["same_device"] and answer["captured"] == [32, 8, 1]
    assert answer["steps_stood_for"] == 431 and answer["steps_replayed"] == 5
    for key in ("hit_rate", "exact_hit_rate", "padding_waste"):
        assert answer["measured"][key] == pytest.approx(answer["predicted"][key]), key
    assert answer["measured"]["hit_rate"] == pytest.approx(430 / 431)
    assert answer["measured"]["mean_step_ms"] > 0 and answer["measured"]["capture_s"] > 0
    assert "times and memory cannot" in answer["notes"][0] and answer["failures"] == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--sizes", "1,8"), "--profile"),
        (("--profile", "p.json"), "--sizes"),
        (("--profile", "p.json", "--sizes", "1,8"), "--model"),
        (("--profile", "p.json", "--sizes", "1,8", "--model", "no-such", "--device", "cpu"), "no-such"),
    ],
)
def test_what_is_missing_is_said(
    captune: Captune, files: tuple[Path, Path], arguments: tuple[str, ...], word: str
) -> None:
    ran = captune("verify", "h.csv", *arguments)
    assert ran.code == 2 and word in ran.stderr.splitlines()[-1], ran.stderr
