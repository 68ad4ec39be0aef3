"""The Ray head is killed in mid-sweep: the sweep's process ends with a reason, and the sweep when the head is back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from db.records import NewMeasurement, StoredSweep
from db.store import Store
from services.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240.0


class Head:
    """`ray start --head` at one port, to be killed and started again."""

    def __init__(self, folder: Path, port: int) -> None:
        self._bin = Path(sys.executable).parent
        self.address = f"127.0.0.1:{port}"
        secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "ef" * 32, "RAY_TMPDIR": str(folder)}
        self.environment = os.environ | secret | {"RAY_ADDRESS": self.address}
        self._words = [f"--port={port}", "--num-cpus=1", "--num-gpus=0", "--include-dashboard=false"]

    def start(self) -> None:
        environment = {key: value for key, value in self.environment.items() if key != "RAY_ADDRESS"}
        command = [str(self._bin / "ray"), "start", "--head", "--block", *self._words]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet, start_new_session=True)

    def kill(self) -> None:
        """All of its processes at once, as a machine that loses power."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def head() -> Iterator[Head]:
    from tests.compose.stage import free_ports

    folder = Path(tempfile.mkdtemp(prefix="cap-"))
    made = Head(folder, free_ports(1)[0])
    made.start()
    try:
        yield made
    finally:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited in vain for {what}"
        time.sleep(0.1)


def test_a_sweep_outlives_the_head(head: Head, tmp_path: Path) -> None:
    settings = Settings(f"sqlite:///{tmp_path / 'captune.db'}", tmp_path / "data")
    with Store(settings.database_url, settings.data_dir) as store:
        job, _ = store.sweeps.create_once(NewMeasurement("tiny-llama", "mine", worker={"device": "cpu"}), None)

        def now() -> StoredSweep:
            return store.sweeps.get(job.id)

        environment = head.environment | settings.environment()
        runner = subprocess.Popen([sys.executable, "-m", "services.sweeps.runner"], env=environment, cwd=ROOT)
        try:
            wait_for(lambda: "capture" in (now().progress_phase or ""), "the first captures")
            fence = now().fence
            head.kill()
            wait_for(lambda: now().state == "queued", "the sweep to be given back")
            assert "waiting to try again: RAY_ADDRESS: the head of the Ray cluster" in (now().progress_phase or "")
            time.sleep(3.0)
            head.start()
            wait_for(lambda: now().state == "complete", "the sweep to end")
            assert now().fence > fence and now().error_code is None
            assert store.profiles.load("mine").starts == 2
        finally:
            runner.terminate()
            runner.wait(30)
