"""The pool: runs every start in a fresh worker, replaces a worker that dies, and merges what the starts measured.

measurement = measure(default_spec("llama-3.1-8b", cuda=True), on_progress=print)
write(dump_profile(measurement.profile))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from services.capture.actor import Event, events, replay_events
from services.capture.cluster import ray_cluster
from services.capture.fleet import Fleet, OnProgress, Work
from services.capture.placement import Wish, wish_of
from services.capture.profile_builder import build_profile
from services.capture.readings import Progress, SizeFailure, StartReport, WorkerFailure
from services.capture.replay_job import ReplayJob, ReplayReport
from services.capture.shrinking import SharedSpec
from services.capture.spec import MeasureSpec, list_spec
from tuner.cost_profile import CostProfile
from workloads.errors import MeasurementFailed
from workloads.models.config import builtin_names, load_config

T = TypeVar("T")
RunStart = Callable[[MeasureSpec, int], Iterator[Event]]

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


class Crew(Protocol):
    """Who does the parts of a job: a `Fleet` of workers, or this process."""

    def run(self, job: MeasureSpec | ReplayJob, *start: int) -> Iterator[Event]: ...

    def in_parallel(self, parts: Sequence[Work[T]], on_progress: OnProgress) -> list[T]: ...


class InProcess:
    """Everything here, one part after the other."""

    def run(self, job: MeasureSpec | ReplayJob, *start: int) -> Iterator[Event]:
        return replay_events(job) if isinstance(job, ReplayJob) else events(job, *start)

    def in_parallel(self, parts: Sequence[Work[T]], on_progress: OnProgress) -> list[T]:
        return [part(on_progress) for part in parts]


def measure_profile(
    spec: MeasureSpec,
    on_progress: OnProgress | None = None,
    *,
    use_ray: bool = True,
    command: str | None = None,
    wish: Wish | None = None,
) -> CostProfile:
    """Measure a cost profile; see `measure`."""
    return measure(spec, on_progress, use_ray=use_ray, command=command, wish=wish).profile


def measure(
    spec: MeasureSpec,
    on_progress: OnProgress | None = None,
    *,
    use_ray: bool = True,
    command: str | None = None,
    wish: Wish | None = None,
) -> Measurement:
    """Measure a model in `spec.starts` fresh workers, on as many GPUs of one type as there are, and merge them.

    Args:
        on_progress: called in this thread for every step of progress of any start.
        wish: which GPU; None takes what `spec.device` and the environment say.
        use_ray: False runs all starts in this process, for debugging: the starts are not fresh then.
        command: what the person typed, kept in the profile.

    Raises:
        BadInput: the model cannot be built.
        Unavailable: Ray or the device cannot be reached.
        MeasurementFailed: no start could finish.
    """
    told = on_progress or _ignore
    with _crew(_resolved(spec), use_ray, wish) as (spec, crew):
        first: list[Started] = []
        if spec.probing is not None:  # what few probes found is what the other starts measure
            first = [_start_of(crew, SharedSpec(spec), 0, told)]
            spec = _confirming(first[0].spec, first[0].report)
        shared = SharedSpec(spec)
        numbers = range(len(first), spec.starts)
        done = first + crew.in_parallel([partial(_start_of, crew, shared, number) for number in numbers], told)
    failures = [failure for each in done for failure in (*each.failures, *each.report.failures)]
    reports = tuple(each.report for each in done)
    profile = build_profile(shared.get(), reports, tuple(failures), command=command)
    return Measurement(profile, reports, tuple(failures))


def capture_list(
    base: MeasureSpec, sizes: tuple[int, ...], on_progress: OnProgress | None = None, *, use_ray: bool = True
) -> StartReport:
    """One list; see `capture_lists`."""
    return capture_lists(base, [sizes], on_progress, use_ray=use_ray)[0]


def capture_lists(
    base: MeasureSpec,
    lists: Sequence[tuple[int, ...]],
    on_progress: OnProgress | None = None,
    *,
    use_ray: bool = True,
    wish: Wish | None = None,
) -> list[StartReport]:
    """Capture each list exactly, in a fresh worker of its own, largest first as engines do, and time one step of each
    size; lists go to different GPUs where there are several.

    Args:
        base: model, device, strategy and protocol; its sizes are ignored.

    Returns:
        A report a list, in their order: `step_ms()`, and `pool_mib + sum(marginal_mib)`, `fixed_s + sum(marginal_s)`
        for the whole list.

    Raises:
        As `measure`.
    """
    with _crew(_resolved(base), use_ray, wish) as (decided, crew):
        specs = [SharedSpec(list_spec(decided, sizes)) for sizes in lists]
        done = crew.in_parallel([partial(_start_of, crew, spec, 0) for spec in specs], on_progress or _ignore)
    return [replace(each.report, failures=(*each.failures, *each.report.failures)) for each in done]


def replay_lists(job: ReplayJob, on_progress: OnProgress | None = None, *, use_ray: bool = True) -> ReplayReport:
    """Capture all sizes of the job's lists in one fresh worker, largest first, and replay its steps through each list.

    With one list the report tells what an engine would pay for it: capture seconds and memory included.

    Raises:
        As `measure`; MeasurementFailed also when the worker is lost.
    """
    with _crew(_resolved(job.spec), use_ray, None) as (spec, crew):
        return _replay(crew, replace(job, spec=spec), on_progress or _ignore)


def _replay(crew: Crew, job: ReplayJob, on_progress: OnProgress) -> ReplayReport:
    last: Progress | None = None
    for event in crew.run(job):
        if isinstance(event, Progress):
            last = event
            on_progress(event)
        elif isinstance(event, ReplayReport):
            return event
        elif isinstance(event, WorkerFailure):
            if event.error is not None:
                raise event.error
            at = "" if last is None else f" ({last.phase}{'' if last.size is None else f', size {last.size}'})"
            raise MeasurementFailed(f"the replay was lost{at}: {event.message}")
    raise MeasurementFailed("the worker ended without a word")


@dataclass(frozen=True, slots=True)
class Started:
    """One start that came to its end: `spec` is what was left to measure, `failures` what cost it a worker."""

    spec: MeasureSpec
    report: StartReport
    failures: tuple[SizeFailure, ...]


def _start_of(crew: Crew, shared: SharedSpec, start: int, on_progress: OnProgress) -> Started:
    given = shared.get()
    failures: list[SizeFailure] = []
    left, report = _one_start(given, start, crew.run, failures, on_progress)
    shared.leave_out(given, left)
    return Started(left, report, tuple(failures))


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
        if outcome.kind == "worker_died" and not _has_begun(last):
            continue  # no size can be to blame yet: a killed process, a node that went away
        smaller = _without(spec, last)
        if smaller is None:
            raise MeasurementFailed(reason)
        if smaller != spec and last is not None and last.size is not None:
            failures.append(SizeFailure(last.size, outcome.kind, f"{last.phase}: {reason}"))
        spec = smaller
    raise MeasurementFailed(f"{MAX_REPLACEMENTS + 1} workers were lost; the last one: {reason}")


def _confirming(spec: MeasureSpec, report: StartReport) -> MeasureSpec:
    """The job of the starts after one of few probes: everything that it read, captured in an engine's order."""
    if report.probing is None:
        return spec
    return replace(spec, sizes=tuple(set(report.probing.sizes) | set(spec.sizes)), probing=None)


def _has_begun(last: Progress | None) -> bool:
    return last is not None and last.phase not in ("start", "build", "attention")


def _without(spec: MeasureSpec, last: Progress | None) -> MeasureSpec | None:
    """The job without what was being done last, or the same job where that is not to blame; None where nothing
    would be left or the worker had not begun."""
    if last is None or not _has_begun(last):
        return None
    if last.phase in ("probe", "time", "fallback", "done"):  # reported now and then only, and every size had run before
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
def _crew(spec: MeasureSpec, use_ray: bool, wish: Wish | None) -> Iterator[tuple[MeasureSpec, Crew]]:
    """The spec with its device decided, and who works on it."""
    if not use_ray:
        yield spec, InProcess()
        return
    with ray_cluster() as ray:
        fleet = Fleet(ray, wish or wish_of(spec.device))
        yield replace(spec, device="cuda" if fleet.place.cuda else "cpu"), fleet


def _ignore(_: Progress) -> None:
    return None
