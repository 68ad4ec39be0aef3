"""The Ray actor: one process, one start. It ends with a report or with a typed failure, never with a bare exception."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator

from services.capture.readings import Progress, StartReport, WorkerFailure
from services.capture.spec import MeasureSpec
from workloads.errors import CaptuneError

Event = Progress | StartReport | WorkerFailure


def events(spec: MeasureSpec, start: int) -> Iterator[Event]:
    """Run a session: progress, then exactly one `StartReport` or `WorkerFailure`."""
    # torch is imported where the work is, so that a driver without it can still ask for work.
    from services.capture.failures import kind_of
    from services.capture.session import CaptureSession

    try:
        report = yield from CaptureSession(spec, start=start).run()
        yield report
    except Exception as error:  # a remote task ends here: whatever it was becomes a result with a reason
        ours = error if isinstance(error, CaptuneError) else None
        message = str(error) or type(error).__name__
        yield WorkerFailure(kind_of(error), message, error=ours, trace=traceback.format_exc())


class CaptureActor:
    """Made into a Ray actor by the pool, with one GPU (or none, for a CPU profile). Used for one start, then killed."""

    def pid(self) -> int:
        return os.getpid()

    def measure(self, spec: MeasureSpec, start: int) -> Iterator[Event]:
        """A streaming generator of `events`."""
        yield from events(spec, start)
