"""`captune robust` and `captune drift`: lists beyond the recording that they were chosen for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.cli.conftest import Captune

SGLANG = ("--engine", "sglang@0.5.23", "--set", "max_running_requests=256", "--set", "cuda_graph_max_bs_decode=256")
PROFILE = ("--profile", "h200-llama-3.1-8b")


@pytest.fixture
def recordings(tmp_path: Path) -> tuple[Path, Path]:
    made = []
    for name, sizes in (("day", range(3, 60, 4)), ("night", range(120, 250, 7))):
        path = tmp_path / f"{name}.csv"
        path.write_text("size,count\n" + "".join(f"{size},100\n" for size in sizes))
        made.append(path)
    return made[0], made[1]


def test_one_list_serves_two_recordings(captune: Captune, recordings: tuple[Path, Path]) -> None:
    day, night = recordings
    ran = captune("robust", day, "--also", night, *SGLANG, *PROFILE, "--max-length", 10, "--json")
    assert ran.code == 0, ran.stderr
    found = ran.document
    assert len(found["lists"]["decode"]) == found["list_length"] <= 10
    assert 0 <= found["bound"] <= found["worst_regret_of_traces"] and found["worst_regret"] <= 0.10 + 1e-9
    assert found["gap"] == pytest.approx(found["worst_regret_of_traces"] - found["bound"])
    assert [of["name"] for of in found["traces"]] == [str(day), str(night)]
    shown = captune("robust", day, "--also", night, *SGLANG, *PROFILE, "--max-length", 10)
    assert "sizes for all" in shown.stdout and "worst regret" in shown.stdout


def test_a_robust_list_needs_another_recording(captune: Captune, recordings: tuple[Path, Path]) -> None:
    ran = captune("robust", recordings[0], *SGLANG, *PROFILE)
    assert ran.code == 2 and "name another recording: --also SOURCE" in ran.stderr
    twice = captune("robust", recordings[0], "--also", recordings[0], *SGLANG, *PROFILE)
    assert twice.code == 2 and "is named twice" in twice.stderr


def test_drift_of_a_stored_recommendation(captune: Captune, recordings: tuple[Path, Path]) -> None:
    day, night = recordings
    stored = captune("tune", day, *SGLANG, *PROFILE, "--trials", 1, "--json").document["recommendation"]
    same = captune("drift", day, "--recommendation", stored["id"], *PROFILE, "--json").document
    assert same["distance"] == 0.0 and not same["retune"]
    assert same["present"]["lists"] == stored["lists"]
    moved = captune("drift", night, "--recommendation", stored["id"], *PROFILE, "--json").document
    assert moved["distance"] == pytest.approx(1.0) and moved["regret"] >= same["regret"]
    assert len(moved["best"]["sizes"]) <= len(stored["lists"]["decode"])


def test_drift_of_any_list(captune: Captune, recordings: tuple[Path, Path]) -> None:
    shown = captune("drift", recordings[1], *SGLANG, *PROFILE, "--sizes", "1,256")
    assert shown.code == 0 and "tune again" in shown.stdout  # so short that no list of its length keeps the bound
    none = captune("drift", recordings[1], *SGLANG, *PROFILE)
    assert none.code == 2 and "give one of --sizes, --recommendation and --running" in none.stderr
