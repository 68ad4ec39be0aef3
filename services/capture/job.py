"""From "measure this model" to a full job: the device that is here decides which protocol runs."""

from __future__ import annotations

import os
from importlib.util import find_spec

from services.capture.readings import Progress
from services.capture.spec import Device, MeasureSpec, default_spec
from workloads.errors import MissingExtra


def plan_job(model: str, *, device: Device = "auto", sizes: tuple[int, ...] | None = None) -> MeasureSpec:
    """The default job for a model on the device that `device` means here.

    A Ray cluster (`RAY_ADDRESS`) is taken to have GPUs unless the CPU is asked for.

    Raises:
        MissingExtra: torch or Ray is not installed.
    """
    for module in ("torch", "ray"):
        if find_spec(module) is None:
            raise MissingExtra.of("worker", "measuring a profile")
    return default_spec(model, cuda=_cuda(device), sizes=sizes)


def _cuda(device: Device) -> bool:
    if device != "auto":
        return device == "cuda"
    if os.environ.get("RAY_ADDRESS"):
        return True
    import torch

    return torch.cuda.is_available()


def describe(progress: Progress) -> str:
    """One line for people: `start 1 of 2, capture size 128 (3 of 40)`."""
    what = progress.phase.replace("_", " ")
    size = "" if progress.size is None else f" size {progress.size}"
    return f"start {progress.start + 1} of {progress.starts}, {what}{size} ({progress.done} of {progress.total})"
