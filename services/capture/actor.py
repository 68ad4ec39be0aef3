"""The Ray actor: one process, one start. It ends with a report or with a typed failure, never with a bare exception."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Generator, Iterator

from services.capture.readings import Progress, StartReport, WorkerFailure, WorkerId
from services.capture.replay_job import ReplayJob, ReplayReport
from services.capture.spec import MeasureSpec
from workloads.errors import CaptuneError

Event = Progress | StartReport | ReplayReport | WorkerFailure


def events(spec: MeasureSpec, start: int) -> Iterator[Event]:
    """Run a session: progress, then exactly one `StartReport` or `WorkerFailure`."""

    def session() -> Generator[Progress, None, StartReport]:
        # torch is imported where the work is, so that a driver without it can still ask for work.
        from services.capture.session import CaptureSession

        return (yield from CaptureSession(spec, start=start).run())

    return _ending_typed(session)


def replay_events(job: ReplayJob) -> Iterator[Event]:
    """Run a replay: progress, then exactly one `ReplayReport` or `WorkerFailure`."""

    def session() -> Generator[Progress, None, ReplayReport]:
        from services.capture.replay import ReplaySession

        return (yield from ReplaySession(job).run())

    return _ending_typed(session)


def _ending_typed(session: Callable[[], Generator[Progress, None, StartReport | ReplayReport]]) -> Iterator[Event]:
    try:
        yield (yield from session())
    except Exception as error:  # a remote task ends here: whatever it was becomes a result with a reason
        from services.capture.failures import kind_of

        ours = error if isinstance(error, CaptuneError) else None
        message = str(error) or type(error).__name__
        yield WorkerFailure(kind_of(error), message, error=ours, trace=traceback.format_exc())


class CaptureActor:
    """Made into a Ray actor by the pool, with one GPU (or none, for a CPU profile). Used for one start, then killed."""

    def pid(self) -> int:
        return os.getpid()

    def device(self) -> WorkerId:
        """Where this actor lives."""
        import ray

        context = ray.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", [])
        return WorkerId(str(context.get_node_id()), int(gpus[0]) if gpus and str(gpus[0]).isdigit() else None)

    def measure(self, spec: MeasureSpec, start: int) -> Iterator[Event]:
        """A streaming generator of `events`."""
        yield from events(spec, start)

    def replay(self, job: ReplayJob) -> Iterator[Event]:
        """A streaming generator of `replay_events`."""
        yield from replay_events(job)
