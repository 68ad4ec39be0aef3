"""What the nodes of a Ray cluster have: devices, drivers, versions; and which of them a job may use."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

LOOK_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One device of one node; a node without GPUs has the one device `cpu`. `refused` says why it cannot be used."""

    node_id: str
    node: str
    device: str
    memory_mib: float | None = None
    driver: str | None = None
    torch: str | None = None
    ray: str | None = None
    python: str | None = None
    refused: str | None = None


def report(node_id: str, node: str) -> list[DeviceReport]:
    """The devices of the machine that this runs on; a Ray task, or a plain call."""
    torch, ray, python = _version("torch"), _version("ray"), platform.python_version()
    gpus = _gpus()
    if not gpus:
        return [DeviceReport(node_id, node, "cpu", _host_mib(), torch=torch, ray=ray, python=python)]
    return [
        DeviceReport(node_id, node, f"{index}: {name}", memory_mib, driver, torch, ray, python)
        for index, (name, memory_mib, driver) in enumerate(gpus)
    ]


def look(ray: Any, nodes: Sequence[Mapping[str, Any]] | None = None) -> list[DeviceReport]:
    """Ask nodes of the cluster that `ray` is connected to, all of them by default. A node that cannot answer is
    reported as refused."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(report)
    asked: list[tuple[str, str, Any]] = []
    for node in ray.nodes() if nodes is None else nodes:
        if not node["Alive"]:
            continue
        here = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        name = node_name(node, local=not os.environ.get("RAY_ADDRESS"))
        asked.append((node["NodeID"], name, task.options(scheduling_strategy=here).remote(node["NodeID"], name)))
    found: list[DeviceReport] = []
    for node_id, name, answer in asked:
        found += _checked(ray, node_id, name, answer)
    return found


def node_name(node: Mapping[str, Any], *, local: bool) -> str:
    """What a node is called in the inventory.

    Args:
        node: as `ray.nodes()` tells it.
        local: the Ray that a job starts for itself. It has a new port every time and stays the same machine.
    """
    host = str(node["NodeManagerHostname"])
    return host if local else f"{host} ({node['NodeManagerAddress']}:{node['NodeManagerPort']})"


def _checked(ray: Any, node_id: str, name: str, answer: Any) -> list[DeviceReport]:
    try:
        devices: list[DeviceReport] = ray.get(answer, timeout=LOOK_TIMEOUT_S)
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return [DeviceReport(node_id, name, "unknown", refused=f"the node does not answer: {lines[-1]}")]
    reason = mismatch(devices[0], platform.python_version(), _version("ray"))
    if reason is None:
        return devices
    return [replace(device, refused=reason) for device in devices]


def mismatch(device: DeviceReport, python: str, ray: str | None) -> str | None:
    """Why a node cannot work with a driver of these versions, in one sentence; None when it can.

    Ray asks for the same release of Ray and the same minor release of Python: pickled functions differ otherwise.
    """
    if (device.python or "").split(".")[:2] != python.split(".")[:2]:
        return f"{device.node} has Python {device.python} and this process {python}; install the same minor release"
    if device.ray != ray:
        return f"{device.node} has Ray {device.ray} and this process {ray}; install the same release"
    return None


def living_nodes(ray: Any) -> set[str]:
    """Ids of the nodes that Ray counts as alive."""
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def _host_mib() -> float:
    """Memory of this machine, which is what a CPU profile lives in."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpus() -> list[tuple[str, float, str]]:
    """Name, MiB and driver of every NVIDIA GPU here."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        totals = [pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**20 for handle in handles]
        names = [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
        return [(name, total, driver) for name, total in zip(names, totals, strict=True)]
    finally:
        pynvml.nvmlShutdown()
