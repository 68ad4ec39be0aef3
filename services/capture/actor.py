"""The Ray actor: one process, one start. It ends with a report or with a typed failure, never with a bare exception."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping

from services.capture.readings import Progress, StartReport, WorkerFailure, WorkerId
from services.capture.replay_job import ReplayJob, ReplayReport
from services.capture.spec import MeasureSpec
from services.logs import FORMAT, log_to_stderr
from workloads.errors import CaptuneError

log = logging.getLogger("captune.worker")

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


def _logged(what: str, told: Iterator[Event]) -> Iterator[Event]:
    """The events, with a log line at the begin, for every finished capture and at the end."""
    log.info("%s begins", what)
    for event in told:
        if isinstance(event, WorkerFailure):
            log.warning("%s failed (%s): %s", what, event.kind, event.message)
        elif isinstance(event, Progress) and event.seconds is not None:
            log.info("%s: size %s captured in %.3f s", what, event.size, event.seconds)
        elif not isinstance(event, Progress):
            log.info("%s is done", what)
        yield event


class CaptureActor:
    """Made into a Ray actor by the pool, with one GPU (or none, for a CPU profile). Used for one start, then killed."""

    def __init__(self, fields: Mapping[str, str], log_format: str | None) -> None:
        """Args:
        fields: what the asking process says in its log lines; ours say it too, and which worker we are.
        log_format: CAPTUNE_LOG_FORMAT there.
        """
        if log_format is not None:
            os.environ[FORMAT] = log_format
        log_to_stderr(**fields, worker=self.device().node_id[:12])

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
        yield from _logged(f"start {start} of {spec.model}", events(spec, start))

    def replay(self, job: ReplayJob) -> Iterator[Event]:
        """A streaming generator of `replay_events`."""
        yield from _logged(f"replay on {job.spec.model}", replay_events(job))
