"""Keeps the worker inventory current while a job measures: who is there, who is busy with which size, who was lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from db.store import Store
from db.workers import SeenWorker
from services.capture.inventory import DeviceReport, living_nodes
from services.capture.readings import Progress, WorkerId

EVERY_S = 2.0


class Watch:
    """The inventory of one job, from a look at the cluster at its start and what its workers tell while it runs.

    Args:
        ray: the connected `ray` module.
    """

    def __init__(self, store: Store, sweep_id: str, ray: Any, devices: Sequence[DeviceReport]) -> None:
        self._store = store
        self._sweep_id = sweep_id
        self._ray = ray
        self._devices = [device for device in devices if device.refused is None]
        self._sizes: dict[WorkerId, int | None] = {}
        self._next_at_s = 0.0
        store.workers.seen([_seen(device) for device in devices])

    def progress(self, told: Progress) -> None:
        """A worker has told something; written down every few seconds."""
        if told.worker is None:
            return
        self._sizes[told.worker] = told.size
        if told.phase == "done":
            self._rest(told.worker, None)
        if time.monotonic() >= self._next_at_s:
            self._next_at_s = time.monotonic() + EVERY_S
            self._write()

    def end(self, error: str | None) -> None:
        """The job has ended; `error` is why it ended badly."""
        for worker in list(self._sizes):
            self._rest(worker, error)

    def _write(self) -> None:
        alive = living_nodes(self._ray)
        self._sizes = {worker: size for worker, size in self._sizes.items() if worker.node_id in alive}
        for device in self._devices:
            busy = [size for worker, size in self._sizes.items() if _is_on(device, worker)]
            if device.node_id not in alive:
                self._store.workers.lost(_seen(device), "its node went away in the middle of a measurement")
            elif busy:
                self._store.workers.works(_seen(device), self._sweep_id, busy[-1])
            else:
                self._store.workers.seen([_seen(device)])
        self._devices = [device for device in self._devices if device.node_id in alive]

    def _rest(self, worker: WorkerId, error: str | None) -> None:
        self._sizes.pop(worker, None)
        for device in self._devices:
            if _is_on(device, worker):
                self._store.workers.rests(_seen(device), error)


def _is_on(device: DeviceReport, worker: WorkerId) -> bool:
    index = device.device.partition(": ")[0]
    return device.node_id == worker.node_id and (worker.gpu is None or index in (str(worker.gpu), "cpu"))


def _seen(device: DeviceReport) -> SeenWorker:
    return SeenWorker(
        node=device.node,
        device=device.device,
        memory_mib=device.memory_mib,
        driver=device.driver,
        torch=device.torch,
        ray=device.ray,
        python=device.python,
        refused=device.refused,
    )
