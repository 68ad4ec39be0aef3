"""`captune serve`: three processes come up together and go together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def children_of(pid: int) -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid:
            child = int(status.parent.name)
            found |= {child} | children_of(child)
    return found


def wait_for(url: str, process: subprocess.Popen[bytes], limit_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"{url} did not answer")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_all_three(tmp_path: Path, how: signal.Signals) -> None:
    api, dashboard = free_port(), free_port()
    command = [sys.executable, "-c", "from services.cli.main import main; main()", "serve"]
    command += ["--api-port", str(api), "--dashboard-port", str(dashboard)]
    environment = os.environ | {"CAPTUNE_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{dashboard}/_stcore/health", process)
        wait_for(f"http://127.0.0.1:{api}/readyz", process)
        started = children_of(process.pid)
        assert len(started) >= 3
        process.send_signal(how)
        assert process.wait(timeout=60) == 0
        assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
