"""The fleet: the workers of one job, one actor a GPU. Independent parts of a job run on as many as there are at once.

Results keep the order of the parts, progress comes from all of them in the caller's thread, and what the caller's
callback raises ends every worker.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from services import logs, telemetry
from services.capture.actor import CaptureActor, Event
from services.capture.inventory import DeviceReport, living_nodes, look
from services.capture.placement import Place, Wish, find_place
from services.capture.readings import Progress, WorkerFailure, WorkerId
from services.capture.replay_job import ReplayJob
from services.capture.spec import MeasureSpec
from workloads.errors import CaptuneError, Unavailable

T = TypeVar("T")
OnProgress = Callable[[Progress], None]
Work = Callable[[OnProgress], T]

NODE_DEATH_S = 20.0  # Ray's own patience with a silent node, 15 s, and some more
NODE_BACK_S = 30.0  # how long a job waits for a node that can take over before it is given back
_LISTEN_S = 0.1


class _Stopped(CaptuneError):
    """The job was ended from outside; nobody sees this but the threads of its parts."""


class Fleet:
    """Workers on the nodes that `wish` allows. Safe to use from the threads that `in_parallel` runs.

    Args:
        ray: the connected `ray` module.

    Raises:
        Unavailable: no node has what the job asks for.
    """

    def __init__(self, ray: Any, wish: Wish) -> None:
        self._ray, self._wish = ray, wish
        self._devices: list[DeviceReport] = []
        self._lock = threading.Lock()
        self._actors: dict[Any, str | None] = {}
        self._stopped = threading.Event()
        self.place = self._find()

    def run(self, job: MeasureSpec | ReplayJob, *start: int) -> Iterator[Event]:
        """Events of one job (`spec, start` or a `ReplayJob`) in an actor of its own; a dead actor is a `WorkerFailure`.

        A node that dies under its actor is no fault of the job: the job begins again on another node.
        """
        while (yield from self._once(job, *start)):
            self.place = self._find_again()

    def in_parallel(self, parts: Sequence[Work[T]], on_progress: OnProgress) -> list[T]:
        """Do all parts, as many at a time as there are slots; results in the order of the parts.

        Raises:
            Whatever a part or `on_progress` raises first; every other part is ended then.
        """
        if min(len(parts), self.place.slots) <= 1:
            return [part(on_progress) for part in parts]
        told: SimpleQueue[Progress] = SimpleQueue()
        with ThreadPoolExecutor(min(len(parts), self.place.slots), thread_name_prefix="worker") as pool:
            # Each in a copy of this thread's context: its log lines and spans belong to the same sweep.
            futures = [pool.submit(copy_context().run, part, told.put) for part in parts]
            try:
                _follow(futures, told, on_progress)
                return [future.result() for future in futures]
            except BaseException:
                self._stop(futures)
                raise

    def _once(self, job: MeasureSpec | ReplayJob, *start: int) -> Generator[Event, None, bool]:
        """One try; returns whether the job must begin again because its node was lost."""
        ray, actor = self._ray, self._new_actor()
        method = actor.replay if isinstance(job, ReplayJob) else actor.measure
        pid: int | None = None
        here: WorkerId | None = None
        again = False
        traced = telemetry.begin("capture", {f"captune.{name}": value for name, value in logs.fields().items()})
        try:
            pid, here = ray.get([actor.pid.remote(), actor.device.remote()])
            with self._lock:
                self._actors[actor] = here.node_id
            if traced is not None:
                traced.set_attributes({"captune.node": here.node_id, "captune.start": start[0] if start else 0})
            for reference in method.options(num_returns="streaming").remote(job, *start):
                event = ray.get(reference)
                yield replace(event, worker=here) if isinstance(event, Progress) else event
        except ray.exceptions.RayError as error:  # died, unavailable, out of host memory: all the same to the caller
            if self._stopped.is_set():
                raise _Stopped("the job was ended") from None
            again = here is not None and _lost_its_node(ray, here.node_id, str(error))
            if not again:
                reason = str(error).strip().splitlines()[0]
                yield WorkerFailure("worker_died", f"the worker process was lost ({reason})")
        finally:
            if traced is not None:
                traced.end()
            with self._lock:
                self._actors.pop(actor, None)
            ray.kill(actor, no_restart=True)
            if pid is not None and not os.environ.get("RAY_ADDRESS"):
                _wait_until_gone(pid)
        return again

    def _new_actor(self) -> Any:
        with self._lock:
            if self._stopped.is_set():
                raise _Stopped("the job was ended")
            taken = frozenset(node for node in self._actors.values() if node is not None)
            actor = self._ray.remote(**self.place.options(taken))(CaptureActor).remote(
                logs.fields(), os.environ.get(logs.FORMAT)
            )
            # A CPU worker goes where it is told; remember that now, before the next one asks.
            self._actors[actor] = None if self.place.cuda else self.place.host(taken)
            return actor

    def _stop(self, futures: Sequence[Future[T]]) -> None:
        self._stopped.set()
        for future in futures:
            future.cancel()
        with self._lock:
            actors = list(self._actors)
        for actor in actors:
            self._ray.kill(actor, no_restart=True)

    def _find(self) -> Place:
        """Ask nodes that were not asked before. A cluster of our own is this machine, and is asked about a GPU's type
        and memory only where the job is."""
        nodes = self._ray.nodes()
        if os.environ.get("RAY_ADDRESS") or self._wish != Wish(self._wish.device):
            known = {device.node_id for device in self._devices}
            self._devices += look(self._ray, [node for node in nodes if node["NodeID"] not in known])
        return find_place(nodes, self._devices, self._wish)

    def _find_again(self) -> Place:
        deadline_s = time.monotonic() + NODE_BACK_S
        while not self._stopped.is_set():
            try:
                return self._find()
            except Unavailable:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(1.0)
        raise _Stopped("the job was ended")


def _follow(futures: Sequence[Future[T]], told: SimpleQueue[Progress], on_progress: OnProgress) -> None:
    """Hand on progress until all parts are done.

    Raises:
        What the first part that failed did; the others may still be running.
    """
    while True:
        running = [future for future in futures if not future.done()]
        failed = next((future for future in futures if future.done() and future.exception() is not None), None)
        try:
            while True:
                on_progress(told.get(timeout=_LISTEN_S if running and failed is None else 0))
        except Empty:
            pass
        if failed is not None:
            failed.result()
        if not running:
            return


def _lost_its_node(ray: Any, node: str, message: str) -> bool:
    """Whether an actor died because its node did; Ray may say so only after some missed heartbeats."""
    said = re.search(r"unavailable|node (has |was |is )?(died|dead|terminated|lost)", message, flags=re.IGNORECASE)
    patient = said is not None and bool(living_nodes(ray) - {node})
    deadline_s = time.monotonic() + (NODE_DEATH_S if patient else 0.0)
    while not (gone := node not in living_nodes(ray)) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    return gone


def _wait_until_gone(pid: int, limit_s: float = 15.0) -> None:
    """A process gives its GPU memory back when it is gone, and the next start's readings need that."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s and Path(f"/proc/{pid}").exists():
        time.sleep(0.05)
