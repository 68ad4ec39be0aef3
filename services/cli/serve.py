"""`captune serve`: API, runner and dashboard on this machine, started and stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from services.cli.stored import without_password
from services.settings import Settings
from workloads.errors import MissingExtra, Unavailable

_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.2

ApiPort = Annotated[int, typer.Option("--api-port", help="Port of the API on 127.0.0.1.")]
DashboardPort = Annotated[int, typer.Option("--dashboard-port", help="Port of the dashboard on 127.0.0.1.")]


@dataclass(frozen=True, slots=True)
class Part:
    """One of the three processes."""

    name: str
    process: subprocess.Popen[bytes]


def serve(api_port: ApiPort = 8321, dashboard_port: DashboardPort = 8501) -> None:
    """Start API, runner and dashboard on loopback; Ctrl-C stops all three."""
    for module, extra in (("fastapi", "server"), ("uvicorn", "server"), ("streamlit", "dashboard")):
        if find_spec(module) is None:
            raise MissingExtra.of(extra, "captune serve")
    settings = replace(Settings.from_environment(), api_port=api_port, dashboard_port=dashboard_port)
    parts: list[Part] = []
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        environment = os.environ | settings.environment() | {"CAPTUNE_API_URL": settings.api_url}
        parts.append(_start("api", [sys.executable, "-m", "services.api.main"], environment))
        _wait_ready(parts, f"http://127.0.0.1:{api_port}/readyz")
        parts.append(_start("runner", [sys.executable, "-m", "services.sweeps.runner"], environment))
        parts.append(_start("dashboard", _streamlit(dashboard_port), environment))
        _wait_ready(parts, f"http://127.0.0.1:{dashboard_port}/_stcore/health")
        print(f"dashboard  http://127.0.0.1:{dashboard_port}", file=sys.stderr)
        print(f"API        http://127.0.0.1:{api_port}/docs", file=sys.stderr)
        print(f"database   {without_password(settings.database_url)}", file=sys.stderr)
        print("Ctrl-C stops all three.", file=sys.stderr, flush=True)
        _watch(parts)
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr)  # being told to stop is how a service ends well
    finally:
        _stop(parts)


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _streamlit(port: int) -> list[str]:
    page = Path(__file__).resolve().parents[2] / "dashboard" / "app.py"
    options = {
        "server.address": "127.0.0.1",
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "server.maxUploadSize": "200",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "minimal",
    }
    return [sys.executable, "-m", "streamlit", "run", str(page), *(f"--{k}={v}" for k, v in options.items())]


def _start(name: str, command: list[str], environment: Mapping[str, str]) -> Part:
    # A session of its own: Ctrl-C reaches us alone, and we stop the part with everything it started.
    process = subprocess.Popen(command, env=dict(environment), stdout=sys.stderr, start_new_session=True)
    return Part(name, process)


def _wait_ready(parts: list[Part], url: str) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        _raise_if_dead(parts)
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(_POLL_S)
    raise Unavailable(f"{parts[-1].name} did not answer at {url} within {_READY_TIMEOUT_S:.0f} s")


def _watch(parts: list[Part]) -> None:
    while True:
        _raise_if_dead(parts)
        time.sleep(_POLL_S)


def _raise_if_dead(parts: list[Part]) -> None:
    for part in parts:
        code = part.process.poll()
        if code is not None:
            raise Unavailable(f"the {part.name} stopped with exit code {code}; its last words are above")


def _stop(parts: list[Part]) -> None:
    for part in reversed(parts):
        _signal(part, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    for part in parts:
        try:
            part.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(part, signal.SIGKILL)
            part.process.wait()


def _signal(part: Part, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # already gone
        os.killpg(part.process.pid, signum)
