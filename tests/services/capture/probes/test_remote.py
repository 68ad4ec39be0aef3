"""Engines on a real local Ray: the stand-in engine on a machine that says it has two GPUs, workers that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.capture import cluster
from services.capture.cluster import ROOT, ray_cluster
from services.capture.probes.base import Batch, Launch
from services.capture.probes.experiment import Experiment
from services.capture.probes.failures import EngineFailed
from services.capture.probes.node import MARK
from services.capture.probes.offline import OfflineProbe
from services.capture.probes.on_ray import experiment_key, gpus_of, run_on_ray
from services.capture.probes.records import Folder
from services.capture.probes.remote import RemoteProbe
from services.capture.probes.starting import Starter
from services.capture.probes.step_time import StepProtocol
from services.capture.probes.vllm_server import VllmServer
from tests.services.capture.probes.conftest import MakeExperiment, MakeLaunch, workload
from workloads.errors import BadUsage, Unavailable
from workloads.traces.records import RequestTrace

TWO_GPUS = {"address": "local", "include_dashboard": False, "num_gpus": 2, "num_cpus": 4}
SMALL = Batch(2, 16, 4, 1)


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("OMP_WAIT_POLICY", "passive")  # the node's own, which engines keep
        patch.setattr(cluster, "_local_options", lambda: TWO_GPUS)
        with ray_cluster() as module:
            yield module


@pytest.fixture
def launch_here(launch: MakeLaunch, tmp_path: Path) -> MakeLaunch:
    (tmp_path / "config.json").write_text("{}")
    return launch


@pytest.fixture
def probe(ray: Any, tmp_path: Path) -> Iterator[RemoteProbe]:
    made = RemoteProbe(ray, VllmServer(), tmp_path.name, {"num_cpus": 0, "num_gpus": 1})
    yield made
    made.close()


def engines(part: str) -> list[int]:
    """Processes of engines whose folder has that part in its name."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(item.startswith(MARK.encode()) and part.encode() in item for item in variables):
                found.append(int(entry.name))
    return found


def worker_of(pids: list[int]) -> int:
    """Process id of the actor that started these engines."""
    parents = (int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids)
    return next(parent for parent in parents if parent not in (1, *pids))


def wait_for(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
    deadline_s = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return condition()


def small_experiment(experiment: MakeExperiment, launch: MakeLaunch, tmp_path: Path) -> Experiment:
    """Two profiling and five comparing starts of the stand-in, each about a second."""
    draw = np.random.default_rng(3)
    trace = RequestTrace(np.arange(60) * 0.02, draw.integers(8, 40, 60), draw.integers(4, 16, 60))
    virtual, folder = experiment(), Folder(tmp_path / "shared")
    plan = replace(
        virtual.plan,
        workloads=(workload("short", 1.0, trace).plan,),
        serve_s=0.2,
        context_tokens=64,
        replay_steps=1,
        protocol=StepProtocol(short_tokens=2, long_tokens=10, repeats=1, least_repeats=1),
        lists={"capture": (1, 4)},
    )
    small = launch(options={"max_num_seqs": "8"}, base_ms=2.0, row_ms=0.2)
    return replace(
        virtual,
        plan=folder.agree(replace(plan, options=small.raw_options)),
        starter=Starter(VllmServer(), small, folder),
        options=small.options,
        longest_tokens=200,
        workloads=(workload("short", 1.0, trace),),
        profile_starts=1,
        starts=2,
        log_settles_s=0.3,
    )


@pytest.mark.usefixtures("ray")
def test_two_engines_at_a_time_share_one_experiment_and_it_goes_on_when_a_worker_is_killed(
    experiment: MakeExperiment, launch_here: MakeLaunch, tmp_path: Path
) -> None:
    made = small_experiment(experiment, launch_here, tmp_path)
    folder = made.starter.folder
    killed: list[int] = []

    def kill_once(done: int, now: str) -> None:
        if "rows at" in now and not killed:
            killed.append(worker_of(engines("/engine/")))
            os.kill(killed[0], signal.SIGKILL)

    outcome = run_on_ray(replace(made, told=kill_once), 2)
    assert outcome.profile is not None and outcome.left == ()
    first, *records = folder.starts()
    assert (
        first.failure is not None
        and first.failure.kind == "worker_lost"
        and "the worker on node" in first.failure.sentence
    )
    assert all(record.failure is None for record in records) and engines("/engine/") == []
    assert Counter(record.name for record in records if record.purpose == "compare")["default"] == 2
    gpus = {record.gpu for record in records}
    assert len(gpus) == 2 and all(gpu is not None and gpu.startswith("GPU ") for gpu in gpus)
    for record in (first, *records):
        assert "vLLM server version 0.23.0" in folder.log_path(record.number).read_text()
        if record.purpose == "compare":
            census = record.runs["short"].census
            assert census is not None and census.steps > 0
    assert experiment_key(made.plan, made.starter.launch) == experiment_key(
        replace(made.plan, command="x"), made.starter.launch
    )


def test_an_engine_inherits_the_nodes_variables_and_none_of_rays(
    probe: RemoteProbe, launch_here: MakeLaunch, tmp_path: Path
) -> None:
    printed = replace(
        launch_here(), command=(sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))")
    )
    with pytest.raises(EngineFailed) as caught:
        probe.start(printed, tmp_path / "log")
    assert caught.value.failure.kind == "died"
    seen = json.loads((tmp_path / "log").read_text())
    ours = {"OMP_NUM_THREADS", "PYTHONBREAKPOINT", "LD_PRELOAD"} - set(os.environ)
    assert not ours & set(seen) and not [name for name in seen if name.startswith("RAY_")]
    assert str(ROOT) not in seen.get("PYTHONPATH", "").split(os.pathsep)
    assert seen["CUDA_VISIBLE_DEVICES"] in ("0", "1") and seen["OMP_WAIT_POLICY"] == "passive"
    assert seen["VLLM_WORKER_MULTIPROC_METHOD"] == "fork" and seen["VLLM_CACHE_ROOT"].startswith(seen[MARK])


def test_a_killed_worker_is_a_typed_failure_leaves_nothing_and_is_replaced(
    probe: RemoteProbe, launch_here: MakeLaunch, tmp_path: Path
) -> None:
    running = probe.start(launch_here(orphan=True), tmp_path / "log")
    assert running.batch_s(SMALL) > 0 and running.observe().version == "0.23.0"
    started = engines(tmp_path.name)
    assert len(started) == 2  # the second ignores SIGTERM
    os.kill(worker_of(started), signal.SIGKILL)
    with pytest.raises(EngineFailed) as caught:
        running.batch_s(SMALL)
    assert caught.value.failure.kind == "worker_lost" and "the worker on node" in caught.value.failure.sentence
    assert engines(tmp_path.name) == []
    running.stop()  # nothing is left to stop
    again = probe.start(launch_here(), tmp_path / "log")
    assert again.batch_s(SMALL) > 0 and "GPU KV cache size" in again.log.read_text()
    again.stop()
    assert engines(tmp_path.name) == []


def test_a_refusal_is_the_engines_own_sentence_and_its_log_is_here(
    probe: RemoteProbe, launch_here: MakeLaunch, tmp_path: Path
) -> None:
    with pytest.raises(EngineFailed) as caught:
        probe.start(launch_here({"capture": ()}), tmp_path / "log")
    assert caught.value.failure.kind == "refused"
    assert "should contain at least one element" in caught.value.failure.sentence
    assert "ValidationError" in (tmp_path / "log").read_text()
    with pytest.raises(BadUsage, match="has no model at /nowhere; its weights must lie there too"):
        probe.start(replace(launch_here(), model=Path("/nowhere"), dummy_weights=False), tmp_path / "log")


def test_closing_ends_an_engine_in_the_middle_of_its_work(
    probe: RemoteProbe, launch_here: MakeLaunch, tmp_path: Path
) -> None:
    probe.start(launch_here(orphan=True), tmp_path / "log")
    assert engines(tmp_path.name)
    probe.close()
    assert engines(tmp_path.name) == []


@pytest.mark.usefixtures("ray")
def test_more_engines_than_gpus_are_refused_before_anything_starts(
    experiment: MakeExperiment, launch_here: MakeLaunch
) -> None:
    made = experiment()
    with pytest.raises(Unavailable, match="the cluster has 2 GPUs of one type, too few for 3 engines of 1 GPU at"):
        run_on_ray(made, 3)
    assert gpus_of(launch_here(options={"tensor_parallel_size": "4"})) == 4 and made.starter.folder.starts() == ()


def test_the_python_class_runs_there_too(ray: Any, launch_here: MakeLaunch, tmp_path: Path) -> None:
    fakes = str(Path(__file__).with_name("fake_engines"))
    asked: Launch = launch_here({"capture": (1, 2, 8)})
    asked = replace(asked, command=(sys.executable,), environment={**asked.environment, "PYTHONPATH": fakes})
    probe = RemoteProbe(ray, OfflineProbe(), tmp_path.name, {"num_cpus": 0, "num_gpus": 1})
    try:
        running = probe.start(asked, tmp_path / "log")
        assert running.batch_s(SMALL) > 0 and running.observe().lists == {"capture": (1, 2, 8)}
        running.stop()
    finally:
        probe.close()


DRIVER = """
import json, sys
from pathlib import Path
from services.capture.cluster import ray_cluster
from services.capture.probes.base import Launch
from services.capture.probes.remote import RemoteProbe
from services.capture.probes.vllm_server import VllmServer
from tuner.engines.registry import engine

folder, stub = Path(sys.argv[1]), sys.argv[2]
launch = Launch(engine("vllm@0.23.0"), {"max_num_seqs": "16"}, None, folder, 1000, command=(sys.executable, stub))
with ray_cluster() as ray:
    running = RemoteProbe(ray, VllmServer(), folder.name, {"num_cpus": 0}).start(launch, folder / "log")
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_engine_and_records_nothing_of_its_start(tmp_path: Path) -> None:
    rows = "".join(f"{i * 0.02:.2f},{20 + i % 30},{5 + i % 20}\n" for i in range(80))
    (tmp_path / "trace.csv").write_text("arrival,input,output\n" + rows)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "CAPTUNE_"))}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache"), "CAPTUNE_DATA_DIR": "data"}
    stub = Path(__file__).with_name("stub_engine.py")
    command = [sys.executable, "-c", "from services.cli.main import main; main()", "verify", "trace.csv", "--in-engine"]
    command += ["--columns", "arrival,input,output,s", "--engine", "vllm@0.23.0", "--set", "max_num_seqs=4", "--ray"]
    command += ["--model", "tiny-llama", "--records", "records", "--python", f"{sys.executable} {stub}"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL) as captune:
        assert wait_for(lambda: bool(engines(tmp_path.name)), 40.0)
        captune.send_signal(signal.SIGINT)
        assert captune.wait(20.0) == 130
    assert engines(tmp_path.name) == [] and list((tmp_path / "records").glob("start-*.json")) == []


@pytest.mark.slow
@pytest.mark.usefixtures("launch_here")
def test_no_engine_outlives_a_command_that_is_killed(tmp_path: Path) -> None:
    stub = str(Path(__file__).with_name("stub_engine.py"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", DRIVER, str(tmp_path), stub]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as driver:
        assert driver.stdout is not None and "ready\n" in driver.stdout and engines(tmp_path.name)
        driver.kill()
    assert wait_for(lambda: engines(tmp_path.name) == [])
