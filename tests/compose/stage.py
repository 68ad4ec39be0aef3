"""The services of docker-compose.yml as processes of this machine: its commands, its environment, its health checks.

What a container engine would do is done here in small: variables are filled in, host names become loopback, ports and
absolute folders become free ones, a service starts when those that it depends on are healthy or have ended well.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.compose.postgres_image import programs

ROOT = Path(__file__).resolve().parents[2]
PORTS = (5432, 6379, 8321, 8501)
HOSTS = ("postgres", "api", "ray-head")
PATIENCE_S = 120.0
POLL_S = 0.1
STOP_S = 15.0

_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?::([?-])([^}]*))?\}")


class Unset(Exception):
    """A variable that the file insists on; the text is what the file says then."""


def compose_file() -> dict[str, Any]:
    """docker-compose.yml as it stands, variables not filled in."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


def filled_in(value: Any, variables: Mapping[str, str]) -> Any:
    """`value` with `${NAME}`, `${NAME:-default}` and `${NAME:?message}` filled in as Compose does it.

    Raises:
        Unset: a variable with a message is unset or empty.
    """
    if isinstance(value, dict):
        return {key: filled_in(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, variables) for item in value]
    return _VARIABLE.sub(lambda found: _one(found, variables), value) if isinstance(value, str) else value


def _one(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, rule, rest = found.groups()
    if name is None:
        return "$"
    text = variables.get(name, "")
    if text == "" and rule == "?":
        raise Unset(rest)
    return rest if text == "" and rule == "-" else text


@dataclass
class Stage:
    """Runs services of the file below `folder` (a short path: Ray's sockets lie there).

    Attributes:
        started, ended: services in the order in which they started, and exit codes of those that have ended.
    """

    folder: Path
    variables: Mapping[str, str]
    ports: dict[int, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    _seen_fine: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.services: dict[str, Any] = filled_in(compose_file()["services"], self.variables)
        self.ports = self.ports or dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        for name in ("data", "tmp", "ray", "logs"):
            (self.folder / name).mkdir()

    def here(self, text: str) -> str:
        """A text of the file as it is true on this machine."""
        for host in HOSTS:
            text = re.sub(rf"\b(?<![-.]){host}(?=:\d)", "127.0.0.1", text)
        text = re.sub(r"\b\d{4}\b", lambda found: str(self.ports.get(int(found[0]), found[0])), text)
        return re.sub(r"(?<![\w./])/(data|tmp)\b", rf"{self.folder}/\1", text)

    def environment(self, service: str) -> dict[str, str]:
        """What the file gives a service, and of this machine only where its programs are."""
        given = {key: self.here(str(value)) for key, value in self.services[service].get("environment", {}).items()}
        machine = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(programs()), os.environ["PATH"]]),
            "RAY_TMPDIR": str(self.folder / "ray"),
            "CAPTUNE_API_PORT": str(self.ports[8321]),
            "PGPORT": str(self.ports[5432]),
            "PGHOST": "127.0.0.1",
        }
        return machine | given

    def start(self, service: str, command: list[str] | None = None, user: str | None = None) -> None:
        """Run the command of a service (or, for an image with its own, `command`) in a process group."""
        words = command or [self.here(word) for word in self.services[service]["command"]]
        with (self.folder / "logs" / service).open("wb") as log:
            self.processes[service] = subprocess.Popen(
                words,
                env=self.environment(service),
                cwd=ROOT if user is None else "/",
                user=user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(service)

    def healthy(self, service: str) -> bool:
        """One run of a service's own health check."""
        kind, *words = [self.here(word) for word in self.services[service]["healthcheck"]["test"]]
        command = ["/bin/sh", "-c", *words] if kind == "CMD-SHELL" else words
        environment = self.environment(service)
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=30).returncode == 0

    def up(self, *services: str) -> None:
        """Start services as their `depends_on` asks and wait until all are healthy (or have ended well)."""
        waiting = [name for name in services if name not in self.started]
        deadline_s = time.monotonic() + PATIENCE_S
        while not all(self._fine(name) for name in services):
            for name in [name for name in waiting if all(map(self._fine, self.services[name].get("depends_on", {})))]:
                self.start(name)
                waiting.remove(name)
            self._look()
            late = [name for name in services if name not in self._seen_fine]
            assert time.monotonic() < deadline_s, f"waited in vain for {late}\n{self.log(late[0])}" if late else ""
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End everything, the last one first; what does not listen is killed with all that it started."""
        for name in reversed(self.started):
            self._signal(name, signal.SIGINT if name == "postgres" else signal.SIGTERM)
        deadline_s = time.monotonic() + STOP_S
        for name in reversed(self.started):
            with suppress(subprocess.TimeoutExpired):
                self.processes[name].wait(max(0.1, deadline_s - time.monotonic()))
            self._signal(name, signal.SIGKILL)
            self.processes[name].wait()

    def log(self, service: str) -> str:
        """The last words of a service."""
        file = self.folder / "logs" / service
        return file.read_text(errors="replace")[-4000:] if file.is_file() else ""

    def _fine(self, service: str) -> bool:
        """Healthy once, or ended well where the file wants an end: then others may start."""
        if service not in self._seen_fine and service in self.started:
            checked = "healthcheck" in self.services[service]
            if self.healthy(service) if checked else self.ended.get(service) == 0:
                self._seen_fine.add(service)
        return service in self._seen_fine

    def _look(self) -> None:
        for name, process in self.processes.items():
            code = process.poll()
            if code is not None and name not in self.ended:
                self.ended[name] = code
                assert code == 0 and self.services[name]["restart"] == "no", f"{name} ended ({code})\n{self.log(name)}"

    def _signal(self, service: str, signum: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.processes[service].pid, signum)


def free_ports(count: int) -> list[int]:
    """Ports below those that Ray takes for itself and above those that need rights."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        found = []
        for each in sockets:
            each.bind(("127.0.0.1", 0))
            found.append(each.getsockname()[1])
        return found
    finally:
        for each in sockets:
            each.close()
