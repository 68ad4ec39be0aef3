"""Keeps the worker inventory current while a job measures: who is there, who is busy with which size, who was lost."""

from __future__ import annotations

import time
from collections.abc import Sequence

from db.store import Store
from db.workers import SeenWorker
from services.capture.inventory import DeviceReport, busy_nodes

EVERY_S = 2.0


class Watch:
    """The inventory of one job, from a look at the cluster at its start and the actors that live while it runs."""

    def __init__(self, store: Store, sweep_id: str, devices: Sequence[DeviceReport]) -> None:
        self._store = store
        self._sweep_id = sweep_id
        self._devices = [device for device in devices if device.refused is None]
        self._busy: set[str] = set()
        self._next_at_s = 0.0
        store.workers.seen([_seen(device) for device in devices])

    def progress(self, size: int | None) -> None:
        """Something was measured; written down every few seconds."""
        if time.monotonic() < self._next_at_s:
            return
        self._next_at_s = time.monotonic() + EVERY_S
        busy = busy_nodes()
        for device in self._devices:
            if device.node_id in busy:
                self._store.workers.works(_seen(device), self._sweep_id, size)
            elif device.node_id in self._busy:
                self._store.workers.lost(_seen(device), "it went away in the middle of a measurement")
            else:
                self._store.workers.seen([_seen(device)])
        self._busy = busy

    def end(self, error: str | None) -> None:
        """The job has ended; `error` is why it ended badly."""
        for device in self._devices:
            if device.node_id in self._busy:
                self._store.workers.rests(_seen(device), error)


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
