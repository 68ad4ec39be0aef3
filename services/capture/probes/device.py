"""The GPU before and after an engine: who it is, and whether the memory came back."""

from __future__ import annotations

import os
import time
from typing import Any

from services.capture.probes.failures import EngineFailed, EngineFailure

_SLACK_MIB = 512.0


def device_name() -> str | None:
    """Name of the first GPU that is visible; None without one or without NVML."""
    name = _ask(lambda nvml, handle: nvml.nvmlDeviceGetName(handle))
    return name.decode() if isinstance(name, bytes) else name


def used_mib() -> float | None:
    """Memory in use on it, by anybody; None where it cannot be told."""
    used = _ask(lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used)
    return None if used is None else used / 2**20


def wait_until_clean(before_mib: float | None, within_s: float = 30.0) -> None:
    """Wait until no more memory is in use than before the engine.

    Raises:
        EngineFailed: it is not given back.
    """
    if before_mib is None:
        return
    deadline = time.monotonic() + within_s
    while (now_mib := used_mib()) is not None and now_mib > before_mib + _SLACK_MIB:
        if time.monotonic() > deadline:
            raise EngineFailed(
                EngineFailure(
                    "device_not_clean", f"{now_mib:.0f} MiB in use after the engine ended, {before_mib:.0f} before"
                )
            )
        time.sleep(0.2)


def _ask(what: Any) -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        return what(pynvml, _handle(pynvml))
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _handle(nvml: Any) -> Any:
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(first.encode())
    return nvml.nvmlDeviceGetHandleByIndex(int(first) if first.isdecimal() else 0)
