"""EngineProcess: a child in a session of its own, so that everything it starts can be found and ended with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from services.capture.probes.failures import EngineFailed, EngineFailure, failure_in

_POLL_S = 0.05
_LIBC = ctypes.CDLL(None, use_errno=True)  # loaded before any fork: a child must not import
_PR_SET_PDEATHSIG = 1
_SESSION_FIELD = 3  # of /proc/PID/stat, counted after the command's closing bracket
_STATE_FIELD = 0


class EngineProcess:
    """Started at construction; stdout and stderr go to `log`, in one order.

    Args:
        environment: variables on top of `inherited`.
        inherited: what the process begins with; None: this process's own variables.
        keep_pipes: leave stdin and stdout to a caller who talks over them and closes stdout; stderr alone is logged.

    Raises:
        EngineFailed: the command does not exist.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        inherited: Mapping[str, str] | None = None,
        keep_pipes: bool = False,
    ) -> None:
        self.log = log
        self.started = time.monotonic()
        with log.open("wb") as out:
            try:
                self.child = subprocess.Popen(
                    list(command),
                    env={**(os.environ if inherited is None else inherited), **environment},
                    stdin=subprocess.PIPE if keep_pipes else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if keep_pipes else out,
                    stderr=out if keep_pipes else subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
            except OSError as error:
                raise EngineFailed(EngineFailure("not_installed", f"{command[0]}: {error.strerror}")) from None

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def failure(self) -> EngineFailure:
        """Why it ended, once it has."""
        return failure_in(self.text(), self.child.poll())

    def wait_until(self, ready: Callable[[], bool], within_s: float) -> float:
        """Seconds from start to ready.

        Raises:
            EngineFailed: it ended first, or took too long; it is stopped then.
        """
        while not ready():
            if self.child.poll() is not None:
                failure = self.failure()
                self.stop()
                raise EngineFailed(failure)
            if time.monotonic() - self.started > within_s:
                self.stop()
                raise EngineFailed(EngineFailure("timeout", f"not ready after {within_s:.0f} s"))
            time.sleep(_POLL_S)
        return time.monotonic() - self.started

    def stop(self, grace_s: float = 20.0) -> None:
        """SIGTERM to the whole session, SIGKILL to what is left of it after `grace_s`; waits for the end."""
        for number, within_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
            if self._signalled_until_gone(number, within_s):
                break
        if self.child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # of what was never read
                self.child.stdin.close()

    def _signalled_until_gone(self, number: signal.Signals, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        for pid in session_members(self.child.pid):
            _kill(pid, number)
        while True:
            self.child.poll()  # reaps it, else it stays a zombie of ours
            left = session_members(self.child.pid)
            if not left and self.child.poll() is not None:
                return True
            if time.monotonic() > deadline:
                return False
            if number is signal.SIGKILL:  # somebody may have been started in the meantime
                for pid in left:
                    _kill(pid, number)
            time.sleep(_POLL_S)


def session_members(session: int) -> list[int]:
    """Living processes of a session. An engine's workers may leave its process group, but not its session."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended while we looked
            continue
        if int(fields[_SESSION_FIELD]) == session and fields[_STATE_FIELD] not in "ZX":
            found.append(int(entry.name))
    return found


def _end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the thread that started us ends: one killed outright cannot stop its engine."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
