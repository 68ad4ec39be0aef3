"""Where the workers of a job may run: nodes of a Ray cluster that have the device that the job asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.capture.inventory import DeviceReport
from services.capture.spec import Device
from workloads.errors import BadUsage, Unavailable

TYPE_RESOURCE = "accelerator_type:"
MEMORY_LABEL = "captune.io/gpu-memory-mib"
"""For nodes where NVML does not tell: `ray start --labels=captune.io/gpu-memory-mib=143771`."""

_NODE_LABEL = "ray.io/node-id"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a job asks of its workers.

    Attributes:
        device: auto takes GPUs where the cluster has any.
        gpu: the GPU type as Ray calls it (H200, A100, ...); None takes the type of which there are most.
        memory_mib: the least memory of the GPU.
    """

    device: Device = "auto"
    gpu: str | None = None
    memory_mib: float | None = None

    def __str__(self) -> str:
        kind = "GPU" if self.gpu is None else f"GPU of type '{self.gpu}'"
        return kind if self.memory_mib is None else f"{kind} with at least {self.memory_mib / 1024:g} GiB"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A living node, and the GPUs of one type that it has."""

    node_id: str
    gpus: int
    gpu: str | None = None
    memory_mib: float | None = None

    def __str__(self) -> str:
        memory = "" if self.memory_mib is None else f" ({self.memory_mib / 1024:.0f} GiB)"
        return f"{self.gpu or 'GPUs of unknown type'}{memory}"


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes whose devices are alike, so that what starts on them measure may be merged.

    Attributes:
        node_ids: where a worker may run.
        slots: workers that can run at the same time: one a GPU, or one a node where the CPU is measured.
    """

    cuda: bool
    node_ids: tuple[str, ...]
    slots: int

    def host(self, taken: frozenset[str]) -> str:
        """The node of the next CPU worker."""
        return next((node for node in self.node_ids if node not in taken), self.node_ids[0])

    def options(self, taken: frozenset[str]) -> dict[str, Any]:
        """Options of the actor of one worker.

        Args:
            taken: nodes with a worker of this job; two workers on one CPU would measure each other.
        """
        allowed = self.node_ids if self.cuda else (self.host(taken),)
        where = {_NODE_LABEL: f"in({','.join(allowed)})"}
        return {"num_cpus": 1, "num_gpus": 1 if self.cuda else 0, "max_restarts": 0, "label_selector": where}


def wish_of(device: Device, gpu: str | None = None, memory_gib: float | None = None) -> Wish:
    """The wish of a job; where it names no GPU type, CAPTUNE_GPU_TYPE does."""
    wanted = None if device == "cpu" else gpu or os.environ.get("CAPTUNE_GPU_TYPE") or None
    return Wish(device, wanted, None if memory_gib is None else memory_gib * 1024)


def device_of(device: Device, gpu: str | None, memory_gib: float | None) -> Device:
    """The device that a job means: who names a type or a memory wants a GPU.

    Raises:
        BadUsage: and the CPU at the same time.
    """
    if gpu is None and memory_gib is None:
        return device
    if device == "cpu":
        raise BadUsage("type and memory choose among GPUs; they do not go with the CPU", field="device")
    return "cuda"


def find_place(nodes: Sequence[Mapping[str, Any]], devices: Sequence[DeviceReport], wish: Wish) -> Place:
    """The nodes on which the workers of a job may run.

    Args:
        nodes: as `ray.nodes()` tells them.
        devices: what a look at them found; a node that is refused there is left out.

    Raises:
        Unavailable: no node has what the job asks for; names what there is.
    """
    living = _living(nodes, devices)
    with_gpus = [node for node in living if node.gpus > 0]
    if wish.device == "cpu" or (wish == Wish("auto") and not with_gpus):
        hosts = tuple(node.node_id for node in living if _cpus(nodes, node.node_id) >= 1)
        if not hosts:
            raise Unavailable("no node of the cluster has a free CPU core for workers", field="worker.device")
        return Place(cuda=False, node_ids=hosts, slots=len(hosts))
    if not with_gpus and wish == Wish("cuda"):
        raise Unavailable("Ray sees no GPU here; use --device cpu for a small CPU profile", field="device")
    fitting = [node for node in with_gpus if _fits(node, wish)]
    if not fitting:
        known = ", ".join(sorted({str(node) for node in with_gpus})) or "none"
        raise Unavailable(f"the cluster has no {wish}; it has: {known}", field=_field(wish, with_gpus))
    counts: dict[str, int] = {}
    for node in fitting:
        counts[node.gpu or ""] = counts.get(node.gpu or "", 0) + node.gpus
    chosen = max(sorted(counts), key=lambda name: counts[name])
    alike = [node for node in fitting if (node.gpu or "") == chosen]
    return Place(cuda=True, node_ids=tuple(node.node_id for node in alike), slots=counts[chosen])


def _living(nodes: Sequence[Mapping[str, Any]], devices: Sequence[DeviceReport]) -> list[Candidate]:
    refused = {device.node_id for device in devices if device.refused is not None}
    return [_candidate(node, devices) for node in nodes if node["Alive"] and node["NodeID"] not in refused]


def _candidate(node: Mapping[str, Any], devices: Sequence[DeviceReport]) -> Candidate:
    resources = node["Resources"]
    seen = [device for device in devices if device.node_id == node["NodeID"] and device.memory_mib is not None]
    types = sorted(name.removeprefix(TYPE_RESOURCE) for name in resources if name.startswith(TYPE_RESOURCE))
    named = seen[0].device.partition(": ")[2] if seen else None
    label = str(node.get("Labels", {}).get(MEMORY_LABEL, ""))
    memory = float(label) if label.isdigit() else min((d.memory_mib for d in seen if d.memory_mib), default=None)
    return Candidate(node["NodeID"], int(resources.get("GPU", 0)), types[0] if types else named, memory)


def _fits(node: Candidate, wish: Wish) -> bool:
    enough = wish.memory_mib is None or (node.memory_mib is not None and node.memory_mib >= wish.memory_mib)
    return wish.gpu in (None, node.gpu) and enough


def _field(wish: Wish, with_gpus: Sequence[Candidate]) -> str:
    return "worker.memory_gib" if any(wish.gpu in (None, node.gpu) for node in with_gpus) else "worker.gpu"


def _cpus(nodes: Sequence[Mapping[str, Any]], node_id: str) -> float:
    return float(next(node["Resources"].get("CPU", 0) for node in nodes if node["NodeID"] == node_id))
