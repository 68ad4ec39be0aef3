"""How `profile measure` is told which sizes to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.capture.placement import device_of
from services.cli.profile import SizeChoice
from workloads.errors import BadInput, BadUsage


def test_probes_aim_at_the_steps_of_a_histogram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTUNE_DATA_DIR", str(tmp_path))
    path = tmp_path / "sizes.csv"
    path.write_text("size,count\n7,100\n30,50\n4000,1\n")
    plan = SizeChoice(workload=str(path)).plan()
    assert plan is not None and (plan.sizes, plan.weights) == ((7, 30), (100.0, 50.0))
    assert plan.candidates[-1] == 512, "steps above the curve run without a graph"
    assert SizeChoice().plan() is None


def test_requests_cannot_be_aimed_at_before_there_is_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTUNE_DATA_DIR", str(tmp_path))
    path = tmp_path / "requests.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0.0,5,6\n1.0,5,6\n")
    with pytest.raises(BadInput, match="holds requests, whose steps a profile must simulate"):
        SizeChoice(workload=str(path)).plan()


def test_who_names_a_gpu_wants_one() -> None:
    assert device_of("auto", None, None) == "auto" and device_of("cpu", None, None) == "cpu"
    assert device_of("auto", "H200", None) == device_of("cuda", None, 80.0) == "cuda"
    with pytest.raises(BadUsage, match="do not go with the CPU"):
        device_of("cpu", None, 80.0)


def test_one_choice_at_a_time() -> None:
    with pytest.raises(BadUsage, match="one of --sizes, --dense and --for"):
        SizeChoice(sizes="1-8", dense=True)
