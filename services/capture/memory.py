"""Memory as the driver sees it, and its split into what the first capture needs and what each size adds."""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import torch

MIB = 2**20


class MemoryMeter(ABC):
    """Reads memory of an idle device; reading empties the allocator's free list first."""

    @abstractmethod
    def used_mib(self) -> float:
        """Memory in use on the device, by any process."""

    @abstractmethod
    def reserved_mib(self) -> float:
        """Memory that torch's allocator holds."""

    @abstractmethod
    def free_mib(self) -> float:
        """Memory that could still be allocated."""


class CudaMeter(MemoryMeter):
    def used_mib(self) -> float:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        return (total - free) / MIB

    def reserved_mib(self) -> float:
        return torch.cuda.memory_reserved() / MIB

    def free_mib(self) -> float:
        return float(torch.cuda.mem_get_info()[0]) / MIB


class HostMeter(MemoryMeter):
    """Resident memory of this process."""

    def __init__(self) -> None:
        gc.collect()  # what earlier work left behind must not be freed between two readings
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's: gives freed memory back to the system

    def used_mib(self) -> float:
        if self._trim is not None:
            self._trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MIB

    def reserved_mib(self) -> float:
        return self.used_mib()

    def free_mib(self) -> float:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MIB


def make_meter(device: torch.device) -> MemoryMeter:
    return CudaMeter() if device.type == "cuda" else HostMeter()


def split_first(costs: Sequence[float], neighbours: int = 4) -> tuple[float, list[float]]:
    """(fixed, marginal) of costs in capture order: whatever the first costs beyond a typical next one is fixed.

    The first capture also pays for what all share: the pool of the largest size, library workspaces, kernels loaded
    lazily. fixed + sum(marginal) equals sum(costs); `fixed` is never negative.
    """
    if not costs:
        return 0.0, []
    if len(costs) == 1:
        return 0.0, list(costs)
    typical = statistics.median(costs[1 : 1 + neighbours])
    fixed = max(0.0, costs[0] - typical)
    return fixed, [costs[0] - fixed, *costs[1:]]
