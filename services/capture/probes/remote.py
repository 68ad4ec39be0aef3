"""Engines on a Ray cluster: the probe's interface in the command, the engine and all timing in an actor on a node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from services.capture.inventory import living_nodes
from services.capture.probes.base import Batch, Launch, Probe, ProbeRequest, RequestTiming, RunningEngine
from services.capture.probes.device import DeviceIdentity
from services.capture.probes.failures import EngineFailed, EngineFailure
from services.capture.probes.node import rest_of
from services.capture.probes.remote_actor import EngineActor, EngineHost, Reply
from workloads.errors import CaptuneError, Unavailable
from workloads.traces.records import EngineObservation

PLACED_S = 300.0  # for a GPU that is taken by others, and for the code of the job to reach a node
_CLEANED_S = 60.0


class Ended(CaptuneError):
    """The run was ended from outside while its engine worked; nothing is recorded of the start."""


@dataclass(slots=True)
class _Worker:
    """An actor, and how much of its engine's log is here."""

    actor: Any
    host: EngineHost
    log: Path | None = None
    copied_bytes: int = 0
    lost: bool = False

    def keep(self, text: bytes) -> None:
        if self.log is not None and text:
            with self.log.open("ab") as out:
                out.write(text)
            self.copied_bytes += len(text)


class RemoteProbe(Probe):
    """One place of a cluster, held until `close`: its engines run one after the other on the same GPUs. An actor that
    is lost is replaced at the next start, maybe on another node. Used by one thread; any may `close`.

    Args:
        ray: the connected `ray` module.
        probe: how an engine is started on the node.
        key: of the experiment, below which each node keeps what it compiled.
        options: of the actor: GPUs, nodes.

    Attributes:
        lost: workers that were lost so far.
    """

    def __init__(self, ray: Any, probe: Probe, key: str, options: Mapping[str, Any]) -> None:
        self._ray, self._probe, self._key, self._options = ray, probe, key, dict(options)
        self._lock = threading.Lock()
        self._actor: Any = None
        self._worker: _Worker | None = None
        self._closed = False
        self.lost = 0

    def device(self) -> DeviceIdentity:
        """Raises:
        Unavailable: no worker could be placed.
        """
        return self._placed().host.device

    def start(self, launch: Launch, log: Path) -> RunningEngine:
        worker = self._placed()
        log.write_bytes(b"")
        worker.log, worker.copied_bytes = log, 0
        config = (launch.model / "config.json").read_text() if launch.dummy_weights else None
        startup_s = float(self.ask(worker, "start", launch, config))
        return RemoteEngine(partial(self.ask, worker), worker, startup_s, log)

    def close(self) -> None:
        """End the actor and its engine, whatever it does now. May be called twice."""
        with self._lock:
            self._closed = True
            actor, worker = self._actor, self._worker
            self._actor = self._worker = None
        if actor is not None:
            self._ray.kill(actor, no_restart=True)
        if worker is not None:
            self._clean(worker)

    def ask(self, worker: _Worker, method: str, *arguments: Any) -> Any:
        """The value of one call; what the engine printed meanwhile is kept first.

        Raises:
            EngineFailed, BadUsage: as the probe on the node raised it; `worker_lost` where the actor or its node is.
            Ended: this probe was closed.
        """
        ray = self._ray
        try:
            reply: Reply = ray.get(getattr(worker.actor, method).remote(*arguments))
        except ray.exceptions.RayTaskError:
            raise  # an error of ours on the node
        except ray.exceptions.RayError as error:
            raise self._lost(worker, str(error)) from None
        worker.keep(reply.log)
        if reply.error is not None:
            raise reply.error
        return reply.value

    def _placed(self) -> _Worker:
        if self._worker is not None:
            return self._worker
        ray = self._ray
        with self._lock:
            if self._closed:
                raise Ended("the run was ended")
            self._actor = ray.remote(**self._options)(EngineActor).remote(self._probe, self._key)
            actor = self._actor
        try:
            host: EngineHost = ray.get(actor.host.remote(), timeout=PLACED_S)
        except ray.exceptions.RayTaskError:
            raise
        except ray.exceptions.RayError as error:
            if self._closed:
                raise Ended("the run was ended") from None
            ray.kill(actor, no_restart=True)
            reason = str(error).strip().splitlines()[0]
            raise Unavailable(f"no worker for the engine within {PLACED_S:.0f} s: {reason}") from None
        self._worker = _Worker(actor, host)
        return self._worker

    def _lost(self, worker: _Worker, message: str) -> CaptuneError:
        if self._closed:
            return Ended("the run was ended")
        worker.lost = True
        self.lost += 1
        self._actor = self._worker = None
        self._ray.kill(worker.actor, no_restart=True)
        self._clean(worker)
        reason = next(iter(message.strip().splitlines()), "no reason given")
        return EngineFailed(EngineFailure("worker_lost", f"the worker on node {worker.host.name} was lost: {reason}"))

    def _clean(self, worker: _Worker) -> None:
        """End what the engine left on a node that lives, and fetch what it had still printed."""
        ray, host = self._ray, worker.host
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        with suppress(ray.exceptions.RayError):
            if host.node_id not in living_nodes(ray):
                return
            here = NodeAffinitySchedulingStrategy(node_id=host.node_id, soft=False)
            task = ray.remote(num_cpus=0, max_retries=0)(rest_of).options(scheduling_strategy=here)
            worker.keep(ray.get(task.remote(host.log, worker.copied_bytes), timeout=_CLEANED_S))


class RemoteEngine(RunningEngine):
    """An engine that is ready on its node; its log is copied with every answer."""

    def __init__(self, ask: Callable[..., Any], worker: _Worker, startup_s: float, log: Path) -> None:
        self._ask, self._worker, self._log = ask, worker, log
        self.startup_s, self._stopped = startup_s, False

    @property
    def log(self) -> Path:
        if not self._stopped and not self._worker.lost:
            self._ask("news")
        return self._log

    def observe(self) -> EngineObservation:
        found: EngineObservation = self._ask("observe")
        return found

    def batch_s(self, batch: Batch) -> float:
        return float(self._ask("batch_s", batch))

    def serve(self, requests: Sequence[ProbeRequest], on_done: Callable[[int], None]) -> tuple[RequestTiming, ...]:
        """`on_done` is called once, at the end."""
        timings: tuple[RequestTiming, ...] = self._ask("serve", tuple(requests))
        on_done(len(timings))
        return timings

    def metrics(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self._ask("metrics")
        return found

    def stop(self) -> None:
        if not self._stopped and not self._worker.lost:
            self._stopped = True
            self._ask("stop")
