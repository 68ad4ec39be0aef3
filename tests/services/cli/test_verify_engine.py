"""`captune verify --in-engine`, with a stand-in engine in place of vLLM."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from services.cli.in_engine import parse_also
from tests.services.cli.conftest import Captune
from workloads.errors import BadUsage

Write = Callable[[str, str | bytes], Path]
STUB = Path(__file__).parents[1] / "capture" / "probes" / "stub_engine.py"
TRACE = "arrival,input,output\n" + "".join(f"{i * 0.02:.2f},{20 + i % 30},{5 + i % 20}\n" for i in range(80))


@pytest.fixture
def arguments(write: Write, tmp_path: Path) -> list[object]:
    return [
        *("verify", "--trace", write("trace.csv", TRACE), "--columns", "arrival,input,output,s", "--in-engine"),
        *("--engine", "vllm@0.23.0", "--set", "max_num_seqs=4", "--model", "tiny-llama"),
        *("--records", tmp_path / "records", "--python", f"{sys.executable} {STUB}"),
    ]


def test_the_engine_is_profiled_and_lists_are_compared_in_it(
    captune: Captune, arguments: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB", json.dumps({"base_ms": 3.0, "row_ms": 0.2}))
    few = ("--starts", "1", "--profile-starts", "1", "--repeats", "1", "--steps", "1", "--serve-s", "0")
    ran = captune(*arguments, "--sizes", "1,4", *few, "--json")
    assert ran.code == 0, ran.stderr
    answer = ran.document
    assert (answer["engine"], answer["verdict"]) == ("vllm@0.23.0", "inconclusive")
    assert [(item["name"], item["starts"]) for item in answer["lists"]] == [
        ("default", 1),
        ("tuned", 1),
        ("powers of two", 1),
    ]
    assert answer["lists"][1]["effective"] == {"capture": [1, 4]} and answer["thresholds"]["margin_share"] == 0.01
    records = tmp_path / "records"
    assert {"plan.json", "profile.json", "lists.json", "report.md"} <= {path.name for path in records.iterdir()}
    assert "mean decode step ms |" in (records / "report.md").read_text()
    (only,) = answer["workloads"]
    assert (only["name"], answer["workload"], answer["load"]) == (answer["workload"], "trace.csv", 1.0)
    assert answer["lists"][1]["figures"]["mean_step_ms"] == only["lists"][1]["figures"]["mean_step_ms"]
    profile = captune("profile", "show", records / "profile.json", "--json").document
    assert profile["software"]["engine"] == "vllm@0.23.0" and profile["families"]["decode_full"]["points"]


@pytest.mark.slow
def test_the_engine_is_started_by_a_worker_of_ray(captune: Captune, arguments: list[object], tmp_path: Path) -> None:
    few = ("--starts", "1", "--profile-starts", "1", "--repeats", "1", "--steps", "1", "--serve-s", "0")
    ran = captune(*arguments, "--sizes", "1,4", *few, "--ray", "--json")
    assert ran.code == 0, ran.stderr
    assert [item["starts"] for item in ran.document["lists"]] == [1, 1, 1]
    assert not (tmp_path / "records" / "compile-cache").exists()
    (on_the_node,) = (tmp_path / ".cache" / "captune" / "engine").glob("*/*")
    assert {"compile-cache", "engine.log", "model"} == {path.name for path in on_the_node.iterdir()}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--gpus", "2"), "--gpus: is for --ray; without it, start one command for each GPU, in the same folder"),
        (("--gpus", "0", "--ray"), "--gpus"),
    ],
)
def test_engines_at_a_time_are_for_ray(
    captune: Captune, arguments: list[object], options: tuple[str, ...], reason: str
) -> None:
    ran = captune(*arguments, *options)
    assert ran.code == 2 and reason in ran.reason


def test_ray_is_an_option_of_the_engine(captune: Captune, arguments: list[object]) -> None:
    ran = captune(*[given for given in arguments if given != "--in-engine"], "--ray")
    assert ran.code == 2 and "--ray: is for --in-engine" in ran.reason
    told = captune("verify", "--help").stdout
    assert "--ray" in told and "--gpus" in told


def test_one_list_is_chosen_for_three_workloads(
    captune: Captune, arguments: list[object], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB", json.dumps({"base_ms": 1.0, "row_ms": 0.1}))
    other = write("code.csv", TRACE.replace("0,2", "0,3"))
    few = ("--starts", "1", "--profile-starts", "1", "--repeats", "1", "--steps", "3", "--serve-s", "0")
    also = ("--also", f"{arguments[2]}@2", "--also", other)
    ran = captune(*arguments, *also, *few, "--max-length", "3", "--limit-s", "600", "--json")
    assert ran.code == 0, ran.stderr
    answer, names = ran.document, ["trace.csv x1", "trace.csv x2", "code.csv x1"]
    assert [of["name"] for of in answer["workloads"]] == names and answer["load"] is None
    assert "one list for 3 workloads" in answer["requested_by"] and answer["starts_left"] == 0
    assert len(answer["lists"][1]["asked"]["capture"]) <= 4  # three and the end of mixed steps
    assert all(of["changes"]["mean_step_ms"] and 0 < of["load_share"] < 1 for of in answer["workloads"])
    assert "start 3, default: " in ran.stderr and "replay" in ran.stderr
    report = (tmp_path / "records" / "report.md").read_text()
    assert all(f"{name}: predicted against measured." in report for name in names)


def test_two_workloads_of_the_same_name_are_refused(captune: Captune, arguments: list[object]) -> None:
    twice = captune(*arguments, "--also", arguments[2])
    assert twice.code == 2 and "'trace.csv x1' is named twice" in twice.reason


def test_a_workload_may_have_a_load_of_its_own() -> None:
    assert parse_also("conv.csv@3.5", 2.0) == ("conv.csv", 3.5)
    assert parse_also("conv.csv", 2.0) == ("conv.csv", 2.0)
    assert parse_also("team@home.csv", 2.0) == ("team@home.csv", 2.0)
    for load in ("0", "-1", "nan", "inf"):
        with pytest.raises(BadUsage, match="must be above 0"):
            parse_also(f"conv.csv@{load}", 2.0)


def test_without_a_folder_for_the_records_nothing_is_started(captune: Captune, arguments: list[object]) -> None:
    at = arguments.index("--records")
    ran = captune(*arguments[:at], *arguments[at + 2 :])
    assert ran.code == 2 and "--records DIR" in ran.reason
