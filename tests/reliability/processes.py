"""The services as processes that can be killed and started again: API, runner, and a Ray head where one is wanted."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
MARK = "CAPTUNE_RELIABILITY_RUN"
"""Every process that a house starts carries it in its environment, so that none is left behind."""

COMMANDS = {
    "API": [sys.executable, "-m", "services.api.main"],
    "runner": [sys.executable, "-m", "services.sweeps.runner"],
}
CHILD = b"services.sweeps.child"
ACTOR = b"ray::CaptureActor"
READY_S = 90.0
STOP_S = 15.0


class House:
    """Services over one database and one data folder.

    Args:
        folder: data folder and logs; short, as Ray's sockets lie below it.
        database_url: SQLite in the data folder when None.
        with_ray: a Ray head beside them, which measures on its CPUs.
    """

    def __init__(
        self,
        folder: Path,
        database_url: str | None = None,
        *,
        with_ray: bool = False,
    ) -> None:
        self.data = folder / "data"
        self.data.mkdir(exist_ok=True)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = folder
        self._mark = secrets.token_hex(8)
        self._ports = free_ports(3)
        self.url = f"http://127.0.0.1:{self._ports[0]}"
        self.environment = os.environ | {
            MARK: self._mark,
            "CAPTUNE_DATA_DIR": str(self.data),
            "CAPTUNE_API_PORT": str(self._ports[0]),
            "CAPTUNE_LEASE_S": "3",
            "CAPTUNE_SWEEP_PROCESSES": "2",
            "OMP_NUM_THREADS": "1",  # tiny models: threads that spin for each other cost ten times their work
        }
        self.environment.pop("RAY_ADDRESS", None)
        if database_url is not None:
            self.environment["CAPTUNE_DATABASE_URL"] = database_url
        self.with_ray = with_ray
        if with_ray:
            self.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
            self.environment["RAY_ADDRESS"] = f"{own_address()}:{self._ports[1]}"

    def start(self) -> None:
        """Everything, until the API says that it is ready."""
        if self.with_ray:
            self.start_part("Ray head")
        for part in COMMANDS:
            self.start_part(part)
        self.wait_ready()

    def start_part(self, part: str) -> None:
        command = self._ray_command() if part == "Ray head" else COMMANDS[part]
        with (self._folder / f"{part.replace(' ', '-')}.log").open("ab") as log:
            self.processes[part] = subprocess.Popen(
                command, env=self.environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, part: str) -> bool:
        """SIGKILL one part and start it again; False when there is no such process now."""
        if part == "sweep child":
            return self._kill_one(CHILD)
        if part == "worker actor":
            return self._kill_one(ACTOR)
        self.kill_for_good(part)
        self.start_part(part)
        return True

    def kill_for_good(self, part: str) -> None:
        """SIGKILL one part; a Ray head with everything that it started."""
        process = self.processes.pop(part)
        family = [process.pid, *descendants(process.pid)] if part == "Ray head" else [process.pid]
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def ray_answers(self) -> bool:
        """Whether the head takes connections and has a node to run workers on."""
        process = self.processes.get("Ray head")
        if process is None or not any(
            b"raylet" in line[0] for line in map(command_line, descendants(process.pid)) if line
        ):
            return False
        with suppress(OSError), socket.create_connection((own_address(), self._ports[1]), timeout=1):
            return True
        return False

    def readiness(self) -> tuple[int, str]:
        """What /readyz says: status and reason; status 0 when nobody answers."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=15)
        except httpx.HTTPError as error:
            return 0, type(error).__name__
        return answer.status_code, str(answer.json().get("detail", ""))

    def wait_ready(self, limit_s: float = READY_S) -> float:
        """Wait until the API is ready; how long that took.

        Raises:
            TimeoutError: it is not, after `limit_s`.
        """
        started_s = time.monotonic()
        while (found := self.readiness())[0] != 200:
            if time.monotonic() - started_s > limit_s:
                raise TimeoutError(f"the API is not ready after {limit_s:g} s: {found}")
            time.sleep(0.2)
        return time.monotonic() - started_s

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}/api/v1", timeout=30)

    def stop(self) -> None:
        """Ask, then kill; nothing that was started stays."""
        for process in self.processes.values():
            process.terminate()
        deadline_s = time.monotonic() + STOP_S
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline_s - time.monotonic()))
        deadline_s = time.monotonic() + STOP_S
        while (left := marked(self._mark)) and time.monotonic() < deadline_s:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self.processes.values():
                process.poll()
            time.sleep(0.1)

    def _kill_one(self, what: bytes) -> bool:
        for pid in marked(self._mark):
            line = command_line(pid)
            if any(part.startswith(what) for part in line):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def _ray_command(self) -> list[str]:
        ray = str(Path(sys.executable).with_name("ray"))
        ports = {"port": self._ports[1], "dashboard-agent-listen-port": self._ports[2]}
        size = {"num-cpus": 2, "num-gpus": 0, "object-store-memory": 100_000_000}
        chosen = {**ports, **size, "include-dashboard": "false", "temp-dir": self._folder / "ray"}
        options = [f"--{name}={value}" for name, value in chosen.items()]
        return [ray, "start", "--head", "--block", "--disable-usage-stats", *options]


@contextmanager
def house(database_url: str | None = None, *, folder: Path | None = None, **options: Any) -> Iterator[House]:
    """A started house in a temporary folder (or in `folder`), stopped and gone afterwards."""
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cr-", ignore_cleanup_errors=True)))
        made = House(folder, database_url, **options)
        stack.callback(made.stop)
        made.start()
        yield made


def marked(mark: str) -> list[int]:
    """Processes of a house, and what they started: Ray's workers give themselves other names but keep their parents."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return sorted({*found, *(pid for parent in found for pid in descendants(parent))})


def descendants(pid: int) -> list[int]:
    """Children, and theirs."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        mine = parents.get(waiting.pop(), [])
        found += mine
        waiting += mine
    return found


def command_line(pid: int) -> list[bytes]:
    """The arguments of a process; empty when it is gone."""
    try:
        return [part for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") if part]
    except OSError:
        return []


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, outside of the range that Ray gives its workers (10002-19999)."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("", 0))
        return [int(listener.getsockname()[1]) for listener in listeners]


def own_address() -> str:
    """The address that Ray finds for this machine: drivers that connect to another one are not let in."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 80))  # sends nothing; the kernel chooses a route
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
