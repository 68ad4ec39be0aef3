"""The runner: claims queued sweeps and keeps one child process for each; `python -m services.sweeps.runner`.

Several runners may share one queue. A runner holds nothing that is not in the database: killed at any moment, its
sweeps are claimed again when their leases run out. It never talks to Ray itself.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType

from sqlalchemy.exc import InterfaceError, OperationalError

from db.queue import LeaseLost
from db.records import Claim
from db.store import Store
from services import telemetry
from services.logs import log_to_stderr, logged
from services.settings import Settings
from services.sweeps.asking import scheduled_sweep
from services.sweeps.child import GIVEN_BACK
from services.sweeps.cron import next_time
from workloads.errors import CaptuneError, Unavailable

POLL_S = 0.5
GRACE_S = 5.0
"""A child that was told to stop (SIGTERM), or whose sweep was cancelled, is killed after this."""

STARTING_S = 60.0
"""A child renews its lease as soon as it has imported what it needs; its runner does so for it until then, and no
longer than this."""

SCHEDULES_EVERY_S = 1.0
PRUNE_EVERY_S = 3600.0
ALIVE_EVERY_S = 5.0

ROOT = Path(__file__).resolve().parents[2]

log = logging.getLogger("captune.runner")


@dataclass(slots=True)
class Child:
    """A sweep's process; `stop_at` is when it is killed, once it should have stopped by itself."""

    claim: Claim
    process: subprocess.Popen[bytes]
    started_at: float
    renewed_at: float
    stop_at: float | None = None


@dataclass(slots=True)
class Chore:
    """What a runner does now and then beside its sweeps."""

    name: str
    every_s: float
    do: Callable[[], None]
    next_at_s: float = 0.0

    def do_when_due(self) -> None:
        if time.monotonic() >= self.next_at_s:
            self.next_at_s = time.monotonic() + self.every_s
            self.do()


class Runner:
    """Works through the queue until `stop` is set.

    Args:
        store: shared with nobody else's transactions; the caller closes it.
        settings: handed to children through the environment.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.stop = threading.Event()
        self.children: list[Child] = []
        self._store = store
        self._settings = settings
        self._chores = (
            Chore("schedules", SCHEDULES_EVERY_S, self._fire_schedules),
            Chore("retention", PRUNE_EVERY_S, self._prune),
            Chore("sign of life", ALIVE_EVERY_S, _touch_alive_file),
        )

    def run(self) -> None:
        """Claim, start, watch; on `stop` every child gives its sweep back to the queue."""
        log.info("runner %s is ready", self.owner)
        try:
            while not self.stop.wait(0 if self._tick() else POLL_S):
                pass
        finally:
            self.close()

    def run_until_idle(self, timeout_s: float) -> bool:
        """Work until nothing is claimable and no child runs; False when that took longer than `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self._tick() and not self.children:
                return True
            self.stop.wait(POLL_S / 5)
        return False

    def close(self) -> None:
        """Stop all children; their sweeps are queued again."""
        for child in self.children:
            child.process.terminate()
        for child in self.children:
            try:
                child.process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            self._give_back(child.claim, failed=False)
        self.children.clear()

    def _tick(self) -> bool:
        """One look at children and queue; whether a sweep was started."""
        try:
            self.children = [child for child in self.children if self._lives(child)]
            for chore in self._chores:
                chore.do_when_due()
            if len(self.children) >= self._settings.sweep_processes:
                return False
            claim = self._store.queue.claim(self.owner, self._settings.lease_s, self._settings.max_running_per_user)
        except (OperationalError, InterfaceError):
            log.warning("the database does not answer; trying again")
            return False
        if claim is None:
            return False
        with logged(sweep=claim.sweep_id):
            log.info("started (claim %d)", claim.fence)
        at = time.monotonic()
        self.children.append(Child(claim, self._start(claim), at, at))
        return True

    def _fire_schedules(self) -> None:
        queued = self._store.schedules.fire(next_time, scheduled_sweep)
        if queued:
            log.info("schedules queued %d sweeps", queued)

    def _prune(self) -> None:
        removed = self._store.retention.prune(timedelta(days=self._settings.keep_days))
        if removed.sweeps:
            log.info(
                "%d sweeps that ended more than %g days ago were removed", removed.sweeps, self._settings.keep_days
            )

    def _start(self, claim: Claim) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "services.sweeps.child", claim.sweep_id, str(claim.fence), str(os.getpid())]
        path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
        environment = os.environ | self._settings.environment() | {"PYTHONPATH": path}
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=2)  # logs go to stderr

    def _lives(self, child: Child) -> bool:
        code = child.process.poll()
        if code is None:
            self._hurry(child)
            return True
        if code not in (0, GIVEN_BACK) and child.stop_at is None:  # else it was ended because its sweep was not ours
            with logged(sweep=child.claim.sweep_id):
                log.warning("its process ended with %d", code)
            self._give_back(child.claim, failed=True)
        return False

    def _hurry(self, child: Child) -> None:
        if child.stop_at is None and not self._holds(child):
            child.stop_at = time.monotonic() + GRACE_S
        if child.stop_at is not None and time.monotonic() > child.stop_at:
            child.process.kill()

    def _holds(self, child: Child) -> bool:
        at = time.monotonic()
        if at - child.started_at > STARTING_S or at - child.renewed_at < self._settings.lease_s / 3:
            return self._store.queue.holds(child.claim)
        try:
            self._store.queue.renew(child.claim, self._settings.lease_s)
        except LeaseLost:
            return False
        child.renewed_at = at
        return True

    def _give_back(self, claim: Claim, *, failed: bool) -> None:
        try:
            self._store.queue.release(claim, failed=failed)
        except (OperationalError, InterfaceError):
            with logged(sweep=claim.sweep_id):
                log.warning("cannot be given back now; its lease will run out")


def _touch_alive_file() -> None:
    """A health check can look at the age of the file that CAPTUNE_ALIVE_FILE names."""
    if name := os.environ.get("CAPTUNE_ALIVE_FILE"):
        Path(name).touch()


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT."""
    with _patiently_opened(settings) as store:
        runner = Runner(store, settings)

        def stop(_signal: int, _frame: FrameType | None) -> None:
            runner.stop.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        runner.run()


def _patiently_opened(settings: Settings) -> Store:
    while True:
        try:
            return Store(settings.database_url, settings.data_dir)
        except Unavailable as error:
            log.warning("%s; trying again", error)
            time.sleep(2.0)


def main() -> int:
    log_to_stderr()
    try:
        telemetry.start("runner")  # its sweeps' processes send the spans; whether they can is known now
        run(Settings.from_environment())
    except CaptuneError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
