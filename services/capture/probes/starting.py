"""One start of an engine from launch to record: whatever becomes of it, there is one file more and no process left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from services.capture.probes.base import Launch, Probe, RunningEngine
from services.capture.probes.claims import Claim
from services.capture.probes.compile_cache import state_in
from services.capture.probes.failures import EngineFailed
from services.capture.probes.records import Folder, StartRecord, now, plain_lists

Task = Callable[[RunningEngine], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts one engine, the same way each time but for the list."""

    probe: Probe
    launch: Launch
    folder: Folder

    def run(self, claim: Claim, lists: Mapping[str, tuple[int, ...]] | None, task: Task) -> StartRecord:
        """Start with `lists`, do the task, stop, and record under the claim's number.

        Raises:
            BadUsage: an option cannot be passed on; nothing is recorded.
            EngineFailed: the engine is not installed, which no other start will change; nothing is recorded.
        """
        number, begin_s, part_s = claim.number, time.monotonic(), dict[str, float]()
        device = self.probe.device().name
        record = StartRecord(claim.purpose, claim.name, number, now(), lists, device=device, gpu=claim.gpu)
        try:
            engine = self.probe.start(replace(self.launch, lists=lists), self.folder.log_path(number))
            part_s["start"] = _since(begin_s)
            try:
                record = _observed(record, engine, self.launch.engine.name)
                task_begin_s = time.monotonic()
                record = replace(record, **task(engine))
                part_s |= record.part_s or {"measure": _since(task_begin_s)}
            finally:
                stop_begin_s = time.monotonic()
                engine.stop()
                part_s["stop"] = _since(stop_begin_s)
        except EngineFailed as error:
            if error.failure.kind == "not_installed":
                raise
            record = replace(record, failure=error.failure)
        record = replace(record, part_s=part_s, seconds=_since(begin_s))
        self.folder.add(record)
        return record


def _since(begin_s: float) -> float:
    return round(time.monotonic() - begin_s, 1)


def _observed(record: StartRecord, engine: RunningEngine, engine_name: str) -> StartRecord:
    seen = engine.observe()
    return replace(
        record,
        version=seen.version,
        effective=plain_lists(seen.lists),
        startup_s=round(engine.startup_s, 2),
        setup_s=seen.setup_s,
        capture_s=seen.capture_s,
        recording_s=seen.recording_s,
        graph_memory_mib=seen.graph_memory_mib,
        kv_tokens=seen.kv_tokens,
        compile_cache=state_in(engine.log.read_text(errors="replace"), engine_name),
    )
