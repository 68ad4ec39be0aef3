"""The script that holds the worker to its promises runs from end to end on a CPU, so that no GPU time is lost to it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import capture_h200, capture_parts, capture_replays
from services.capture.pool import measure_profile
from services.capture.spec import MeasureSpec
from tuner.profile_file import dump_profile, read_profile
from workloads.errors import CaptuneError
from workloads.models.config import load_config


def small_job(model: str, *, device: str, sizes: tuple[int, ...] | None = None) -> MeasureSpec:
    return MeasureSpec(
        model,
        sizes=sizes or (1, 8, 20),
        contexts=(16, 32, 64),
        starts=1,
        repeats=1,
        iterations=1,
        warmup=1,
        device="cpu",
        max_kv_gib=0.25,
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_parts, "plan_job", small_job)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_two_models_one_after_the_other_with_results_after_every_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_h200, "STRATEGIES", ("full", "piecewise"))
    monkeypatch.setattr(capture_h200, "COMPILED_S", 0.0)
    capture_h200.main(
        [
            *("--out", str(tmp_path), "--models", "tiny-llama,tiny-qwen3", "--starts", "2,1", "--device", "cpu"),
            *("--parts", "kernels,profile,prediction,start to start,draft,strategies", "--budget-s", "1e6"),
            "--in-process",
        ]
    )
    told = capsys.readouterr().out
    first, second = (
        json.loads((tmp_path / model / "results.json").read_text()) for model in ("tiny-llama", "tiny-qwen3")
    )
    parts: dict[str, Any] = {**first, **{f"second {name}": part for name, part in second.items()}}
    assert not any("failed" in part or "left_out" in part for part in parts.values()), parts
    assert first["profile"]["starts"] == 2 and first["profile"]["between_starts"]["pairs"] == 3
    assert second["profile"]["starts"] == 1 and second["profile"]["between_starts"] is None
    assert len(first["prediction"]["pairs"]) == 6 * 8 and len(second["prediction"]["pairs"]) == 4 * 8
    assert first["kernels"]["attention"] == "torch-sdpa-dense" and first["profile"]["phase_s"][1]["time"] > 0
    assert first["prediction"]["this_start_runs"]["pairs"] and first["start to start"]["runs"]["pairs"] == 3
    assert first["prediction"]["this_start"]["pairs"] and first["start to start"]["errors"]["pairs"] == 3
    assert first["prediction"]["attention"] == "torch-sdpa-dense"
    assert list(second)[-3:] == ["draft", "strategy full", "strategy piecewise"]
    profile = read_profile(tmp_path / "tiny-llama" / "profile.json")
    assert profile.starts == 2 and profile.command is not None
    assert profile.command.startswith("python benchmarks/capture_h200.py --out DIR --models tiny-llama,tiny-qwen3")
    assert read_profile(tmp_path / "tiny-qwen3" / "profile-draft.json").families.keys() == {"draft"}
    assert read_profile(tmp_path / "tiny-qwen3" / "profile-piecewise.json").families.keys() == {"decode_piecewise"}
    for shown in ("tiny-qwen3\n", "predicted against measured step", "strategy piecewise, ms by size", "draft"):
        assert shown in told


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_models_with_profiles_are_not_measured_again_and_each_has_parts_of_its_own(tmp_path: Path) -> None:
    profiles = [tmp_path / f"{model}.json" for model in ("tiny-llama", "tiny-qwen3")]
    for path in profiles:
        path.write_text(dump_profile(measure_profile(small_job(path.stem, device="cpu"), use_ray=False)))
    given = ("--models", "tiny-llama,tiny-qwen3", "--profiles", ",".join(map(str, profiles)))
    parts = ("--parts", "prediction", "--only", "tiny-qwen3=start to start")
    capture_h200.main(["--out", str(tmp_path), *given, *parts, "--device", "cpu", "--budget-s", "1e6", "--in-process"])
    first, second = (json.loads((tmp_path / path.stem / "results.json").read_text()) for path in profiles)
    assert list(first) == ["given", "prediction"] and len(first["prediction"]["pairs"]) == 6 * 8
    assert list(second) == ["given", "start to start"] and second["given"]["profile"] == "cpu-tiny-qwen3"
    assert second["start to start"]["runs"]["pairs"] == 3


def test_replays_use_the_attention_of_the_profile(repository: Path, tmp_path: Path) -> None:
    bench = capture_parts.Bench("qwen3-32b", tmp_path, lambda progress: None, device="cpu")
    shipped = {path.stem: read_profile(path) for path in (repository / "profiles").glob("h200-*.json")}
    assert bench.against(shipped["h200-qwen3-32b"]).replay_spec.attention == "flashinfer"
    assert bench.against(shipped["h200-qwen3-30b-a3b"]).replay_spec.attention == "flash"


def test_what_no_longer_fits_is_left_out_and_named(tmp_path: Path) -> None:
    run = capture_h200.Run(tmp_path / "m", time.monotonic() + 5)
    run.part("quick", 1, lambda: {"found": 1})
    run.part("long", 60, lambda: {"found": 2})

    def broken() -> dict[str, Any]:
        raise RuntimeError("out of memory")

    run.part("broken", 1, broken)
    results = json.loads((tmp_path / "m" / "results.json").read_text())
    assert results["quick"]["found"] == 1 and results["broken"]["failed"] == "RuntimeError: out of memory"
    assert results["long"]["left_out"].startswith("takes about 60 s")


@pytest.mark.usefixtures("small")
def test_a_profile_is_tried_with_one_start_before_it_is_left_out(tmp_path: Path) -> None:
    needs = capture_h200.Needs(load_config("tiny-llama").parameters / 1e9, process_s=0.0)
    budget = (needs.profile(1) + needs.profile(3)) / 2
    options = ["--out", str(tmp_path), "--models", "tiny-llama", "--starts", "3", "--device", "cpu", "--in-process"]
    capture_h200.main([*options, "--parts", "profile", "--budget-s", str(budget)])
    assert json.loads((tmp_path / "tiny-llama" / "results.json").read_text())["profile"]["starts"] == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["--parts", "profile,magic"], "--parts"),
        (["--models", "a-model-of-nobody"], "model"),
        (["--models", "tiny-llama", "--profiles", "profiles/h200-qwen3-32b.json"], "--profiles"),
        (["--models", "tiny-llama", "--only", "tiny-qwen3=profile"], "--only"),
        (["--models", "tiny-llama", "--only", "tiny-llama=magic"], "--only"),
        (["--starts", "two"], "--starts"),
        (["--starts", "0"], "--starts"),
    ],
)
def test_a_slip_on_the_command_line_costs_no_time(
    tmp_path: Path, options: list[str], field: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    with pytest.raises(CaptuneError) as caught:
        capture_h200.parse(["--out", str(tmp_path), *options])
    assert caught.value.field == field


def test_lists_are_moved_to_sizes_that_the_profile_measured(repository: Path) -> None:
    cost = read_profile(repository / "profiles" / "h200-qwen3-30b-a3b.json").family("decode_full")
    moved = capture_replays.on_measured_sizes(capture_replays.LISTS["every 32"], cost)
    assert set(moved) <= set(cost.sizes.tolist()) and moved[-1] == 512 and 10 < len(moved) <= 18
    assert [len(window.steps) for window in capture_replays.recorded_windows()] == [16] * 8
    shrunk = capture_replays.recorded_windows(16)
    assert max(step.rows for window in shrunk for step in window.steps) <= 20
