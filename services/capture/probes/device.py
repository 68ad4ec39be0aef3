"""The GPU before and after an engine: who it is, and whether the memory came back.

NVML's Python package is asked, or `nvidia-smi` where the machine of an engine lacks the package.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from services.capture.probes.failures import EngineFailed, EngineFailure

_SLACK_MIB = 512.0
_TOLD_S = 30.0


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """The GPU of an engine; None where it cannot be told.

    Attributes:
        name: as its driver calls it.
        gpu: what tells it from others alike.
    """

    name: str | None
    gpu: str | None


def identity() -> DeviceIdentity:
    """The first GPU that is visible to this process."""
    return DeviceIdentity(device_name(), gpu_identity())


def device_name() -> str | None:
    """Name of the first GPU that is visible; None without one or without its driver's tools."""
    name = _ask(lambda nvml, handle: nvml.nvmlDeviceGetName(handle)) or _told("name")
    return name.decode() if isinstance(name, bytes) else name


def gpu_identity() -> str | None:
    """What tells that GPU from others like it."""
    uuid = _ask(lambda nvml, handle: nvml.nvmlDeviceGetUUID(handle)) or _told("uuid")
    return uuid.decode() if isinstance(uuid, bytes) else uuid


def used_mib() -> float | None:
    """Memory in use on it, by anybody; None where it cannot be told."""
    used = _ask(lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used)
    if used is not None:
        return float(used) / 2**20
    told = _told("memory.used")
    return float(told) if told is not None and told.isdecimal() else None


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


def first_visible() -> str:
    """Index or UUID of the first visible GPU, as CUDA is told it."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"


def _told(field: str) -> str | None:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", first_visible()]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_TOLD_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() or None


def _handle(nvml: Any) -> Any:
    first = first_visible()
    if first.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(first.encode())
    return nvml.nvmlDeviceGetHandleByIndex(int(first) if first.isdecimal() else 0)
