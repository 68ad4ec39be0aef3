"""A probe whose engine takes no time: every duration is computed, so that figures can be asserted exactly.

Starts, HTTP and processes are tested elsewhere; this is for what is made of their readings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.capture.probes.base import Batch, Launch, Probe, ProbeRequest, RequestTiming, RunningEngine
from services.capture.probes.failures import EngineFailed, EngineFailure
from tuner.engines.base import Lists
from workloads.traces.records import EngineObservation

PREFILL_MS_PER_TOKEN = 0.02


@dataclass
class Costs:
    """step = bucket_ms(bucket) + a x KV tokens + h x rows, twice that without a graph; starts differ by `noise`."""

    attention_ms_per_mtoken: float = 40.0
    row_ms: float = 0.002
    noise: Sequence[float] = (0.0,)
    started: list[Lists | None] = field(default_factory=list)

    def bucket_ms(self, bucket: int) -> float:
        return 4.0 + 0.02 * bucket

    def step_ms(self, rows: int, context_tokens: float, sizes: Sequence[int], start: int) -> float:
        bucket = min((size for size in sizes if size >= rows), default=0)
        g_ms = self.bucket_ms(bucket) if bucket else 2 * self.bucket_ms(rows)
        real_ms = rows * (self.attention_ms_per_mtoken * 1e-6 * context_tokens + self.row_ms)
        return (g_ms + real_ms) * (1 + self.noise[start % len(self.noise)])


class VirtualProbe(Probe):
    def __init__(self, costs: Costs, refuses: Callable[[Lists | None], bool] = lambda lists: False) -> None:
        self.costs, self.refuses = costs, refuses

    def start(self, launch: Launch, log: Path) -> RunningEngine:
        log.write_text("")
        self.costs.started.append(launch.lists)
        if self.refuses(launch.lists):
            raise EngineFailed(EngineFailure("refused", "customized sizes should be consistent"))
        name = launch.engine.list_names[0]
        sizes = (launch.lists or launch.engine.default_lists(launch.options))[name]
        return VirtualEngine(self.costs, tuple(sizes), len(self.costs.started), log)


class VirtualEngine(RunningEngine):
    def __init__(self, costs: Costs, sizes: tuple[int, ...], start: int, log: Path) -> None:
        self.costs, self.sizes, self.number, self.log, self.startup_s = costs, sizes, start, log, 40.0

    def observe(self) -> EngineObservation:
        cost_s, cost_mib = 0.5 + 0.1 * len(self.sizes), 700.0 + 5.0 * len(self.sizes)
        lists = {"capture": self.sizes}
        return EngineObservation("vllm", "0.23.0", lists, {}, cost_s, cost_mib, kv_tokens=500_000)

    def batch_s(self, batch: Batch) -> float:
        prefill_ms = PREFILL_MS_PER_TOKEN * batch.prompt_tokens * batch.rows
        contexts = range(batch.prompt_tokens + 1, batch.prompt_tokens + batch.output_tokens)
        return (prefill_ms + sum(self._ms(batch.rows, context) for context in contexts)) / 1e3

    def serve(self, requests: Sequence[ProbeRequest], on_done: Callable[[int], None]) -> tuple[RequestTiming, ...]:
        """Every request on its own, beside sixteen others that nobody looks at."""
        timings = []
        for request in requests:
            first_s = request.at_s + PREFILL_MS_PER_TOKEN * request.prompt_tokens / 1e3
            step_s = self._ms(16, request.prompt_tokens) / 1e3
            last_s = first_s + step_s * (request.output_tokens - 1)
            timings.append(RequestTiming(request.at_s, first_s, last_s, request.output_tokens))
        on_done(len(requests))
        return tuple(timings)

    def stop(self) -> None:
        return

    def _ms(self, rows: int, context_tokens: float) -> float:
        return self.costs.step_ms(rows, context_tokens, self.sizes, self.number)
