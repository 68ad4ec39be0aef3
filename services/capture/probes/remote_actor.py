"""The Ray actor that runs engines on its node: it starts and times them there, with the ordinary probe.

One actor holds its GPUs for a whole run, one engine after the other, each a child of it. The kernel ends the engine
with the actor's process (`process`), and what survives that is ended by the next look at the node (`node`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from services.capture.cluster import ROOT
from services.capture.probes.base import Batch, Launch, Probe, ProbeRequest, RunningEngine
from services.capture.probes.device import DeviceIdentity, identity
from services.capture.probes.node import bytes_from, end_leftovers, node_environment, node_folder
from workloads.errors import BadUsage, CaptuneError


@dataclass(frozen=True, slots=True)
class EngineHost:
    """Where an actor lives.

    Attributes:
        name: of the node, for people.
        device: where the driver tells nothing, GPUs are told apart by what Ray calls them.
        log: of the engine that runs or ran last, in its folder there.
    """

    node_id: str
    name: str
    device: DeviceIdentity
    log: Path


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of one call.

    Attributes:
        value: of the call; None where it failed.
        error: why it failed, typed.
        log: what the engine printed since the last reply.
    """

    value: Any
    error: CaptuneError | None
    log: bytes


class EngineActor:
    """Made into a Ray actor by `remote`. Calls come one at a time and run in the main thread: a child ends with the
    thread that started it.

    Args:
        probe: how engines are started here.
        key: of the experiment, see `node.node_folder`.
    """

    def __init__(self, probe: Probe, key: str) -> None:
        node_id, device = _here()
        self._probe, self._folder = probe, node_folder(key, device.gpu or socket.gethostname())
        self._folder.mkdir(parents=True, exist_ok=True)
        end_leftovers(self._folder)
        self._log = self._folder / "engine.log"
        self._host = EngineHost(node_id, socket.gethostname(), device, self._log)
        self._engine: RunningEngine | None = None
        self._told_bytes = 0

    def host(self) -> EngineHost:
        return self._host

    def start(self, launch: Launch, config: str | None) -> Reply:
        """Start and wait until ready; the value is `startup_s`.

        Args:
            config: text of the model's `config.json`; None where there are weights, whose folder must be here then.
        """
        self._told_bytes = 0
        self._log.unlink(missing_ok=True)
        return self._reply(lambda: self._started(launch, config))

    def observe(self) -> Reply:
        return self._reply(lambda: self._running.observe())

    def batch_s(self, batch: Batch) -> Reply:
        return self._reply(lambda: self._running.batch_s(batch))

    def serve(self, requests: Sequence[ProbeRequest]) -> Reply:
        """Nobody is told of single requests: messages would run beside the client that is being timed."""
        return self._reply(lambda: self._running.serve(requests, lambda done: None))

    def metrics(self) -> Reply:
        return self._reply(lambda: dict(self._running.metrics()))

    def news(self) -> Reply:
        """Nothing but what was printed."""
        return self._reply(lambda: None)

    def stop(self) -> Reply:
        return self._reply(lambda: self._running.stop())

    @property
    def _running(self) -> RunningEngine:
        assert self._engine is not None, "no engine was started"
        return self._engine

    def _started(self, launch: Launch, config: str | None) -> float:
        cache = self._folder / "compile-cache"
        cache.mkdir(exist_ok=True)
        here = replace(
            launch,
            model=self._model(launch.model, config),
            inherited=node_environment(self._folder, ROOT),
            cache=cache,
        )
        self._engine = self._probe.start(here, self._log)
        return self._engine.startup_s

    def _model(self, folder: Path, config: str | None) -> Path:
        if config is not None:
            made = self._folder / "model"
            made.mkdir(exist_ok=True)
            (made / "config.json").write_text(config)
            return made
        if not (folder / "config.json").is_file():
            raise BadUsage(
                f"the node {self._host.name} has no model at {folder}; its weights must lie there too",
                field="--model",
            )
        return folder

    def _reply(self, work: Callable[[], Any]) -> Reply:
        value: Any = None
        error: CaptuneError | None = None
        try:
            value = work()
        except CaptuneError as failed:
            error = failed
        news = bytes_from(self._log, self._told_bytes)
        self._told_bytes += len(news)
        return Reply(value, error, news)


def _here() -> tuple[str, DeviceIdentity]:
    """Id of this worker's node, and its first GPU."""
    import ray

    context = ray.get_runtime_context()
    node_id, gpus, seen = str(context.get_node_id()), context.get_accelerator_ids().get("GPU", []), identity()
    return node_id, DeviceIdentity(seen.name, seen.gpu or (f"GPU {gpus[0]} of node {node_id[:12]}" if gpus else None))
