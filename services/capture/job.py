"""From "measure this model" to a full job: the device that is here decides which protocol runs."""

from __future__ import annotations

import os
from importlib.util import find_spec

from services.capture.forecast import Forecast
from services.capture.readings import Progress
from services.capture.spec import Device, MeasureSpec, default_spec
from tuner.probe_plan import ProbePlan
from workloads.errors import MissingExtra


def plan_job(
    model: str,
    *,
    device: Device = "auto",
    sizes: tuple[int, ...] | None = None,
    dense: bool = False,
    plan: ProbePlan | None = None,
) -> MeasureSpec:
    """The default job for a model on the device that `device` means here; see `default_spec`.

    A Ray cluster (`RAY_ADDRESS`) is taken to have GPUs unless the CPU is asked for.

    Raises:
        MissingExtra: torch or Ray is not installed.
    """
    for module in ("torch", "ray"):
        if find_spec(module) is None:
            raise MissingExtra.of("worker", "measuring a profile")
    return default_spec(model, cuda=_cuda(device), sizes=sizes, dense=dense, plan=plan)


def _cuda(device: Device) -> bool:
    if device != "auto":
        return device == "cuda"
    if os.environ.get("RAY_ADDRESS"):
        return True
    import torch

    return torch.cuda.is_available()


def describe(progress: Progress, forecast: Forecast | None = None) -> str:
    """One line for people: `start 1 of 2, capture size 128 (3 of 40), 0.12 s, 21 MiB, about 2 min left`."""
    what = progress.phase.replace("_", " ")
    size = "" if progress.size is None else f" size {progress.size}"
    parts = [f"start {progress.start + 1} of {progress.starts}", f"{what}{size} ({progress.done} of {progress.total})"]
    if progress.seconds is not None and progress.memory_mib is not None:
        parts += [f"{progress.seconds:.2f} s", f"{progress.memory_mib:.0f} MiB"]
    if forecast is not None and (left := forecast.left(progress)):
        parts.append(left)
    return ", ".join(parts)
