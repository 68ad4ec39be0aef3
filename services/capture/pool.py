"""The pool: runs every start in a fresh worker, replaces a worker that dies, and merges what the starts measured.

measurement = measure(default_spec("llama-3.1-8b", cuda=True), on_progress=print)
write(dump_profile(measurement.profile))
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from services.capture.actor import CaptureActor, Event, events, replay_events
from services.capture.cluster import ray_cluster
from services.capture.inventory import has_others, node_is_gone, placement
from services.capture.profile_builder import build_profile
from services.capture.readings import Progress, SizeFailure, StartReport, WorkerFailure
from services.capture.replay_job import ReplayJob, ReplayReport
from services.capture.spec import MeasureSpec, list_spec
from tuner.cost_profile import CostProfile
from workloads.errors import MeasurementFailed, Unavailable
from workloads.models.config import builtin_names, load_config

OnProgress = Callable[[Progress], None]
RunStart = Callable[[MeasureSpec, int], Iterator[Event]]

NODE_DEATH_S = 20.0  # Ray's own patience with a silent node, 15 s, and some more
MAX_REPLACEMENTS = 3  # workers lost before the whole job is called a failure


@dataclass(frozen=True, slots=True)
class Measurement:
    """A finished job.

    Attributes:
        profile: the starts merged.
        reports: what every start measured.
        failures: sizes without numbers in at least one start, with the reason.
    """

    profile: CostProfile
    reports: tuple[StartReport, ...]
    failures: tuple[SizeFailure, ...]


def measure_profile(
    spec: MeasureSpec, on_progress: OnProgress | None = None, *, use_ray: bool = True, command: str | None = None
) -> CostProfile:
    """Measure a cost profile; see `measure`."""
    return measure(spec, on_progress, use_ray=use_ray, command=command).profile


def measure(
    spec: MeasureSpec, on_progress: OnProgress | None = None, *, use_ray: bool = True, command: str | None = None
) -> Measurement:
    """Measure a model in `spec.starts` fresh workers and merge them.

    Args:
        on_progress: called in this thread for every step of progress.
        use_ray: False runs all starts in this process, for debugging: the starts are not fresh then.
        command: what the person typed, kept in the profile.

    Raises:
        BadInput: the model cannot be built.
        Unavailable: Ray or the device cannot be reached.
        MeasurementFailed: no start could finish.
    """
    spec = _resolved(spec)
    failures: list[SizeFailure] = []
    reports: list[StartReport] = []
    with _runner(spec, use_ray) as (spec, run):
        for start in range(spec.starts):
            spec, report = _one_start(spec, start, run, failures, on_progress or _ignore)
            reports.append(report)
    failures += [failure for report in reports for failure in report.failures]
    profile = build_profile(spec, reports, tuple(failures), command=command)
    return Measurement(profile, tuple(reports), tuple(failures))


def capture_list(
    base: MeasureSpec, sizes: tuple[int, ...], on_progress: OnProgress | None = None, *, use_ray: bool = True
) -> StartReport:
    """Capture exactly `sizes` in a fresh worker, largest first as engines do, and time one step of each.

    Args:
        base: model, device, strategy and protocol; its sizes are ignored.

    Returns:
        The report: `step_ms()`, and `pool_mib + sum(marginal_mib)`, `fixed_s + sum(marginal_s)` for the whole list.

    Raises:
        As `measure`.
    """
    spec = _resolved(list_spec(base, sizes))
    failures: list[SizeFailure] = []
    with _runner(spec, use_ray) as (spec, run):
        _, report = _one_start(spec, 0, run, failures, on_progress or _ignore)
    return replace(report, failures=(*failures, *report.failures))


def replay_lists(job: ReplayJob, on_progress: OnProgress | None = None, *, use_ray: bool = True) -> ReplayReport:
    """Capture all sizes of the job's lists in one fresh worker, largest first, and replay its steps through each list.

    With one list the report tells what an engine would pay for it: capture seconds and memory included.

    Raises:
        As `measure`; MeasurementFailed also when the worker is lost.
    """
    spec = _resolved(job.spec)
    last: Progress | None = None
    with _workers(spec, use_ray) as (spec, work):
        for event in work(replace(job, spec=spec)):
            if isinstance(event, Progress):
                last = event
                (on_progress or _ignore)(event)
            elif isinstance(event, ReplayReport):
                return event
            elif isinstance(event, WorkerFailure):
                if event.error is not None:
                    raise event.error
                at = "" if last is None else f" ({last.phase}{'' if last.size is None else f', size {last.size}'})"
                raise MeasurementFailed(f"the replay was lost{at}: {event.message}")
    raise MeasurementFailed("the worker ended without a word")


def _one_start(
    spec: MeasureSpec, start: int, run: RunStart, failures: list[SizeFailure], on_progress: OnProgress
) -> tuple[MeasureSpec, StartReport]:
    """One start, with a new worker for every one that is lost; what killed a worker is left out from then on."""
    reason = ""
    for _ in range(1 + MAX_REPLACEMENTS):
        last: Progress | None = None
        outcome: StartReport | WorkerFailure = WorkerFailure("worker_died", "the worker ended without a word")
        for event in run(spec, start):
            if isinstance(event, Progress):
                last = event
                on_progress(event)
            elif not isinstance(event, ReplayReport):
                outcome = event
        if isinstance(outcome, StartReport):
            return spec, outcome
        if outcome.error is not None and not isinstance(outcome.error, MeasurementFailed):
            raise outcome.error
        reason = outcome.message
        smaller = _without(spec, last)
        if smaller is None:
            raise MeasurementFailed(reason)
        if smaller != spec and last is not None and last.size is not None:
            failures.append(SizeFailure(last.size, outcome.kind, f"{last.phase}: {reason}"))
        spec = smaller
    raise MeasurementFailed(f"{MAX_REPLACEMENTS + 1} workers were lost; the last one: {reason}")


def _without(spec: MeasureSpec, last: Progress | None) -> MeasureSpec | None:
    """The job without what was being done last, or the same job where that is not to blame; None where nothing
    would be left or the worker had not begun."""
    if last is None or last.phase in ("start", "build"):
        return None
    if last.phase in ("time", "fallback", "done"):  # reported now and then only, and every size had run before
        return spec
    if last.phase == "prefill":
        return replace(spec, prefill_tokens=tuple(n for n in spec.prefill_tokens if n != last.size))
    if last.phase == "step_model":
        return replace(spec, contexts=())
    return None if last.size is None or spec.sizes == (last.size,) else spec.without(frozenset({last.size}))


def _resolved(spec: MeasureSpec) -> MeasureSpec:
    """Check the model here where possible, and make its path absolute: a worker has another folder."""
    if spec.model in builtin_names() or os.environ.get("RAY_ADDRESS"):
        return spec
    load_config(spec.model)
    return replace(spec, model=str(Path(spec.model).resolve()))


@contextmanager
def _runner(spec: MeasureSpec, use_ray: bool) -> Iterator[tuple[MeasureSpec, RunStart]]:
    """The spec with its device decided, and the way to run a start."""
    with _workers(spec, use_ray) as (decided, work):
        yield decided, lambda job, start: work(job, start)


@contextmanager
def _workers(spec: MeasureSpec, use_ray: bool) -> Iterator[tuple[MeasureSpec, Callable[..., Iterator[Event]]]]:
    """The spec with its device decided, and the way to run a job (`spec, start` or a `ReplayJob`) in a worker."""
    if not use_ray:
        yield spec, lambda job, *start: replay_events(job) if isinstance(job, ReplayJob) else events(job, *start)
        return
    with ray_cluster() as ray:
        gpus = ray.cluster_resources().get("GPU", 0)
        if spec.device == "cuda" and gpus < 1:
            raise Unavailable("Ray sees no GPU here; use --device cpu for a small CPU profile", field="device")
        cuda = gpus >= 1 and spec.device != "cpu"
        where = placement(ray, cuda=cuda)
        actor_type = ray.remote(num_cpus=1, num_gpus=1 if cuda else 0, max_restarts=0, **where)(CaptureActor)
        decided = replace(spec, device="cuda" if cuda else "cpu")
        yield decided, lambda job, *start: _ray_job(ray, actor_type, job, *start)


def _ray_job(ray: Any, actor_type: Any, job: MeasureSpec | ReplayJob, *start: int) -> Iterator[Event]:
    """Events of one job in an actor of its own; a dead actor is a `WorkerFailure`.

    A node that dies under its actor is no fault of the job: the job begins again on another node.
    """
    actor = actor_type.remote()
    method = actor.replay if isinstance(job, ReplayJob) else actor.measure
    pid: int | None = None
    node: str | None = None
    again = False
    try:
        pid, node = ray.get([actor.pid.remote(), actor.node.remote()])
        for reference in method.options(num_returns="streaming").remote(job, *start):
            yield ray.get(reference)
    except ray.exceptions.RayError as error:  # died, unavailable, out of host memory: all the same to the caller
        again = node is not None and _lost_its_node(ray, node, str(error))
        if not again:
            reason = str(error).strip().splitlines()[0]
            yield WorkerFailure("worker_died", f"the worker process was lost ({reason})")
    finally:
        ray.kill(actor, no_restart=True)
        if pid is not None and not os.environ.get("RAY_ADDRESS"):
            _wait_until_gone(pid)
    if again:
        yield from _ray_job(ray, actor_type, job, *start)


def _lost_its_node(ray: Any, node: str, message: str) -> bool:
    """Whether an actor died because its node did; Ray may say so only after some missed heartbeats."""
    said = re.search(r"unavailable|node (has |was |is )?(died|dead|terminated|lost)", message, flags=re.IGNORECASE)
    patient = said is not None and has_others(ray, node)
    deadline_s = time.monotonic() + (NODE_DEATH_S if patient else 0.0)
    while not (gone := node_is_gone(ray, node)) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    return gone


def _wait_until_gone(pid: int, limit_s: float = 15.0) -> None:
    """A process gives its GPU memory back when it is gone, and the next start's readings need that."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s and Path(f"/proc/{pid}").exists():
        time.sleep(0.05)


def _ignore(_: Progress) -> None:
    return None
