"""The process of one sweep: `python -m services.sweeps.child SWEEP_ID FENCE RUNNER_PID`.

It alone may be a Ray driver, so that a lost Ray head costs this process and not the queue. A thread renews the lease
and notices when it is lost: cancelled by its owner, claimed by another runner, or orphaned by a dead runner.

Exit codes: 0 the sweep has ended or is not ours any more, 75 given back to the queue.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from types import FrameType

from sqlalchemy.exc import InterfaceError, OperationalError

from db.queue import LeaseLost
from db.records import Claim
from db.store import Store
from services import telemetry
from services.logs import log_to_stderr
from services.settings import Settings
from services.sweeps.job import run_sweep
from services.telemetry import span
from workloads.errors import CaptuneError, Unavailable

GIVEN_BACK = 75
POLL_S = 0.5
RETRY_AFTER_S = 5.0

log = logging.getLogger("captune.sweep")


class Heart:
    """Renews the lease in the background; `stop` is set when the work has to end."""

    def __init__(self, store: Store, claim: Claim, lease_s: float, parent: int) -> None:
        self.stop = threading.Event()
        self._store, self._claim, self._lease_s = store, claim, lease_s
        self._parent = parent
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)

    @property
    def orphaned(self) -> bool:
        return os.getppid() != self._parent

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        renewed_at = time.monotonic()
        while not self._done.wait(POLL_S):
            try:
                if self.orphaned or not self._store.queue.holds(self._claim):
                    self.stop.set()
                    return
                if time.monotonic() - renewed_at > self._lease_s / 3:
                    self._store.queue.renew(self._claim, self._lease_s)
                    renewed_at = time.monotonic()
            except LeaseLost:
                self.stop.set()
                return
            except (OperationalError, InterfaceError):
                log.warning("the database does not answer; trying again")


def run_child(store: Store, claim: Claim, lease_s: float, parent: int) -> int:
    """Work on `claim`; every way to end is an exit code and a stored state."""
    heart = Heart(store, claim, lease_s, parent)

    def terminate(_signal: int, _frame: FrameType | None) -> None:
        heart.stop.set()

    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the runner, which decides
    heart.start()
    try:
        with span("sweep", {"captune.sweep": claim.sweep_id, "captune.claim": claim.fence}):
            run_sweep(store, claim, heart.stop.is_set, lambda error: _give_up(store, claim, error))
    except LeaseLost:
        store.queue.release(claim)  # only has an effect when we were told to stop and the sweep is still ours
        return GIVEN_BACK
    except Unavailable as error:
        return _unavailable(store, claim, error)
    except CaptuneError as error:
        return _ended(store, claim, error, heart)
    except (OperationalError, InterfaceError):
        raise  # nothing can be written now; the runner gives the sweep back, or the lease runs out
    except Exception as error:  # the job ends here: whatever it was becomes a stored, typed result
        log.exception("unexpected")
        return _ended(store, claim, CaptuneError(f"unexpected {type(error).__name__}: {error}"), heart)
    finally:
        heart.end()
    if heart.stop.is_set():
        store.queue.release(claim)  # without effect when cancelled or taken over
        return GIVEN_BACK
    return 0


def _unavailable(store: Store, claim: Claim, error: Unavailable) -> int:
    """What the sweep needs is not there now; it waits in the queue for another try."""
    log.warning("%s; given back to the queue", error)
    store.queue.release(claim, failed=True, retry_after_s=RETRY_AFTER_S, reason=str(error))
    return GIVEN_BACK


def _give_up(store: Store, claim: Claim, error: Unavailable) -> None:
    """Called from another thread when the work will not end by itself: Ray waits for a lost head, then kills us."""
    try:
        _unavailable(store, claim, error)
    finally:
        os._exit(GIVEN_BACK)


def _ended(store: Store, claim: Claim, error: CaptuneError, heart: Heart) -> int:
    if heart.stop.is_set():
        store.queue.release(claim)
        return GIVEN_BACK
    try:
        store.queue.fail(claim, error)
    except LeaseLost:
        log.info("lost before it failed: %s", error)
    return 0


def main() -> int:
    settings = Settings.from_environment()
    claim = Claim(sys.argv[1], int(sys.argv[2]))
    log_to_stderr(sweep=claim.sweep_id)
    telemetry.start("sweep")
    with Store(settings.database_url, settings.data_dir) as store:
        return run_child(store, claim, settings.lease_s, parent=int(sys.argv[3]))


if __name__ == "__main__":
    sys.exit(main())
