"""A sweep that measures its model first: the one place where a sweep touches the GPU worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from db.queue import LeaseLost
from db.store import Store
from services.capture.job import describe, plan_job
from services.capture.placement import device_of, wish_of
from services.capture.readings import Progress
from services.contract.sweep import measured_name
from services.contract.worker_wish import WorkerWish
from services.sweeps.head import GiveUp, head_watched
from services.sweeps.watch import Watch
from tuner.cost_profile import CostProfile
from tuner.profile_file import parse_profile
from workloads.errors import BadUsage


def measure_for_sweep(
    store: Store,
    sweep_id: str,
    model: str,
    on_phase: Callable[[str], None],
    should_stop: Callable[[], bool],
    *,
    worker: WorkerWish,
    give_up: GiveUp | None = None,
    name: str | None = None,
) -> CostProfile:
    """Measure `model` where `worker` allows it and keep the profile as `name`, else as `measured-SWEEP`.

    A sweep that is resumed finds that profile and does not measure again.

    Raises:
        Unavailable: Ray cannot be reached, or no node has what `worker` asks for.
        BadUsage: `model` is a path; a server does not open files that a client names.
        MissingExtra: torch or Ray is not installed here.
        MeasurementFailed: no size could be measured.
        LeaseLost: the sweep was cancelled or taken over meanwhile.
    """
    name = name or measured_name(sweep_id)
    stored = store.profiles.find(name)
    if stored is not None:
        return parse_profile(stored.document, file=name)
    if any(mark in model for mark in "/\\") or model.endswith(".json"):
        raise BadUsage("takes the name of a built-in model; measure a file by `captune profile measure`", field="model")
    on_phase(f"measuring {model}")
    profile = replace(_measure(store, sweep_id, model, on_phase, should_stop, worker, give_up), name=name)
    store.profiles.add(profile)
    return profile


def _measure(
    store: Store,
    sweep_id: str,
    model: str,
    on_phase: Callable[[str], None],
    should_stop: Callable[[], bool],
    worker: WorkerWish,
    give_up: GiveUp | None,
) -> CostProfile:
    job = plan_job(model, device=device_of(worker.device, worker.gpu, worker.memory_gib))
    from services.capture.cluster import ray_cluster  # needs the worker extra, which `plan_job` has checked
    from services.capture.inventory import look
    from services.capture.pool import measure_profile

    with ray_cluster() as ray, head_watched(ray, give_up):
        watch = Watch(store, sweep_id, ray, look(ray))

        def on_progress(progress: Progress) -> None:
            if should_stop():
                raise LeaseLost("told to stop while measuring")
            on_phase(f"measuring {model}: {describe(progress)}")
            watch.progress(progress)

        try:
            profile = measure_profile(job, on_progress, wish=wish_of(job.device, worker.gpu, worker.memory_gib))
        except BaseException as error:
            watch.end(str(error))
            raise
        watch.end(None)
        return profile
