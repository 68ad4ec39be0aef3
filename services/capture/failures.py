"""What an error of torch means for a measurement: a typed reason, and whether the process can go on."""

from __future__ import annotations

import torch

from services.capture.readings import FailureKind, SizeFailure
from workloads.errors import MeasurementFailed

TORCH_ERRORS = (RuntimeError, MeasurementFailed)
"""What a size may raise while it is prepared, checked or timed; everything else is a bug and stays one."""


def kind_of(error: BaseException) -> FailureKind:
    """The reason behind an error. `device_error` is sticky: the CUDA context is lost and with it the process."""
    if isinstance(error, MeasurementFailed):
        return "wrong_result"
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in text:
        return "out_of_memory"
    if "captur" in text:
        return "refused"
    if "CUDA error" in text or "CUDNN_STATUS" in text or "CUBLAS_STATUS" in text:
        return "device_error"
    return "refused"


def failure_of(size: int, error: BaseException) -> SizeFailure:
    """The record of a size that could not be measured.

    Raises:
        MeasurementFailed: the device is lost, so nothing else can be measured in this process.
    """
    kind = kind_of(error)
    lines = str(error).strip().splitlines()
    message = lines[0] if lines else type(error).__name__
    if kind == "device_error":
        raise MeasurementFailed(f"the device failed at size {size}: {message}", field=f"size {size}") from error
    return SizeFailure(size, kind, message)
