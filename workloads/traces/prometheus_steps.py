"""From scrapes to step rows: the running-request gauge is the size, graph-pass counters say how many steps ran."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workloads.traces.prometheus_text import Sample, Scrape
from workloads.traces.records import EngineObservation

# TensorRT-LLM's /prometheus/metrics has gauges of its last iteration since March 2026 (NVIDIA/TensorRT-LLM pull request
# 12545, `tensorrt_llm/metrics/collector.py`), with `enable_iter_perf_stats`; before that, of finished requests only.
_GENERATIONS = "trtllm_num_generation_requests"
RUNNING = {
    "vllm:num_requests_running": "vllm",
    "sglang:num_running_reqs": "sglang",
    "tgi_batch_current_size": "tgi",
    "trtllm_num_requests_running": "tensorrt-llm",
    _GENERATIONS: "tensorrt-llm",
}
_CONTEXTS = "trtllm_num_context_requests"
_ITERATION_S = "trtllm_iteration_latency_seconds"
_BLOCKS_USED = "trtllm_kv_cache_used_blocks"
_BLOCKS = "trtllm_kv_cache_max_blocks"
_BLOCK_TOKENS = "trtllm_kv_cache_tokens_per_block"
_PASSES = "sglang:cuda_graph_passes_total"
_SECONDS = "sglang:forward_execution_seconds_total"
_KV_SHARE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_KV_USED = "sglang:num_used_tokens"
_KV_SIZE = "sglang:max_total_num_tokens"
_CACHE_INFO = "vllm:cache_config_info"
_CAPTURE_S = "sglang:startup_cuda_graph_time_seconds"
_GRAPH_GB = "sglang:graph_memory_usage_gb"
SERIES = (
    *(*RUNNING, _PASSES, _SECONDS, *_KV_SHARE, _KV_USED, _KV_SIZE, _CACHE_INFO, _CAPTURE_S, _GRAPH_GB),
    *(_CONTEXTS, _ITERATION_S, _BLOCKS_USED, _BLOCKS, _BLOCK_TOKENS),
)
WANTED = re.compile("(?:" + "|".join(map(re.escape, SERIES)) + r")(?=[{ \t]|$)")
GAUGE_LINE = re.compile(rf"^(?:{'|'.join(map(re.escape, RUNNING))})[{{ \t]", re.MULTILINE)
_ENGINE_LABELS = ("instance", "pod", "engine", "engine_index", "dp_rank", "model_name")
_RANK_LABELS = ("tp_rank", "pp_rank", "moe_ep_rank")
_MIB_PER_GB = 1024.0
COUNTED = "first scrape: no step count yet"
WITH_PREFILL = "the step of this scrape held a prefill"


@dataclass(slots=True)
class _Reading:
    """What one scrape says of one engine; `iteration` is that of TensorRT-LLM's gauges, by name."""

    running: float | None = None
    iteration: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    kv_tokens: float | None = None

    @property
    def decodes(self) -> float:
        return self.passes.get("decode_cuda_graph", 0.0) + self.passes.get("decode_none", 0.0)

    @property
    def size(self) -> int | None:
        """Requests that decode, prefilling ones included where the engine does not tell them apart."""
        size = self.iteration.get(_GENERATIONS, self.running)
        return int(size) if size is not None and math.isfinite(size) and 0 <= size < 1e9 else None


class ScrapeSteps:
    """Fed with scrapes in order; remembers the counters of the scrape before, and what is told of the engine."""

    def __init__(self) -> None:
        self.counted = False
        self.restarts = 0
        self._before: dict[str, _Reading] = {}
        self._engine: str | None = None
        self._kv_size: float | None = None
        self._startup: dict[tuple[str, str], float] = {}

    def feed(self, scrape: Scrape) -> Iterator[dict[str, Any]]:
        """Step rows of one scrape; a scrape of an idle engine gives a row that says why it is dropped."""
        readings = self._readings(scrape.samples)
        for engine, reading in readings.items():
            before = self._before.get(engine)
            self._before[engine] = reading
            if reading.size is None:
                continue
            base = {
                "line": scrape.line,
                "time_s": scrape.time_s,
                "size": reading.size,
                "engine": engine,
                "kv_tokens": reading.kv_tokens,
            }
            if reading.passes:
                self.counted = True
                yield from self._counted(base, before, reading)
            elif reading.iteration.get(_CONTEXTS, 0.0) > 0:
                yield base | {"reason": WITH_PREFILL}
            else:
                yield base | {"step_ms": _iteration_ms(reading), "reason": None if base["size"] else "idle"}

    def observation(self) -> EngineObservation:
        def total(name: str) -> float | None:
            values = [value for (kind, _), value in self._startup.items() if kind == name and math.isfinite(value)]
            return sum(values) if values else None

        gb = total(_GRAPH_GB)
        known = self._kv_size is not None and math.isfinite(self._kv_size)
        return EngineObservation(
            engine=self._engine,
            capture_s=total(_CAPTURE_S),
            graph_memory_mib=None if gb is None else gb * _MIB_PER_GB,
            kv_tokens=int(self._kv_size) if known and self._kv_size is not None else None,
        )

    def _counted(self, base: dict[str, Any], before: _Reading | None, now: _Reading) -> Iterator[dict[str, Any]]:
        if before is None or not before.passes:
            yield base | {"reason": COUNTED}
            return
        restarted = any(now.passes.get(mode, 0.0) < count for mode, count in before.passes.items())
        if restarted:
            self.restarts += 1
            before = _Reading()
        ran = {mode: count - before.passes.get(mode, 0.0) for mode, count in now.passes.items()}
        step_ms = None if restarted else _step_ms(before, now, ran)
        steps = [(0, ran.get("decode_cuda_graph", 0.0)), (1, ran.get("decode_none", 0.0))]
        taken = [(flag, int(count)) for flag, count in steps if 1 <= count < 1e15]
        if not taken or not base["size"]:
            yield base | {"reason": "no decode step since the scrape before" if base["size"] else "idle"}
            return
        for flag, count in taken:
            yield base | {"steps": count, "fallback": flag, "step_ms": step_ms if len(taken) == 1 else None}

    def _readings(self, samples: list[Sample]) -> Mapping[str, _Reading]:
        first = {
            label: min((s.labels[label] for s in samples if label in s.labels), default=None) for label in _RANK_LABELS
        }
        readings: dict[str, _Reading] = {}
        for sample in samples:
            if any(label in sample.labels and sample.labels[label] != first[label] for label in _RANK_LABELS):
                continue  # another rank of the same engine reports the same steps
            reading = readings.setdefault(_engine_of(sample.labels), _Reading())
            self._take(reading, sample)
        for reading in readings.values():
            self._take_blocks(reading.iteration)
            if _BLOCKS_USED in reading.iteration and _BLOCK_TOKENS in reading.iteration:
                reading.kv_tokens = reading.iteration[_BLOCKS_USED] * reading.iteration[_BLOCK_TOKENS]
        return readings

    def _take_blocks(self, iteration: Mapping[str, float]) -> None:
        if _BLOCKS in iteration and _BLOCK_TOKENS in iteration:
            self._kv_size = iteration[_BLOCKS] * iteration[_BLOCK_TOKENS]

    def _take(self, reading: _Reading, sample: Sample) -> None:
        name, value = sample.name, sample.value
        if name.startswith("trtllm_"):
            reading.iteration[name] = value
        if name in RUNNING:
            reading.running = value
            self._engine = RUNNING[name] if RUNNING[name] != "tgi" else None
        elif name == _PASSES:
            reading.passes[sample.labels.get("mode", "")] = value
        elif name == _SECONDS:
            reading.seconds = value + (reading.seconds or 0.0)
        elif name in _KV_SHARE:
            reading.kv_tokens = None if self._kv_size is None else value * self._kv_size
        elif name == _KV_USED:
            reading.kv_tokens = value
        elif name == _KV_SIZE:
            self._kv_size = value
        elif name == _CACHE_INFO:
            blocks, size = sample.labels.get("num_gpu_blocks", ""), sample.labels.get("block_size", "")
            if blocks.isdecimal() and size.isdecimal():
                self._kv_size = float(blocks[:12]) * float(size[:6])
        elif name in (_CAPTURE_S, _GRAPH_GB):
            self._startup[name, sample.labels.get("phase", "")] = value


def _engine_of(labels: Mapping[str, str]) -> str:
    return " ".join(f"{label}={labels[label]}" for label in _ENGINE_LABELS if label in labels)


def _iteration_ms(reading: _Reading) -> float | None:
    """Time of the iteration whose requests the gauges count."""
    seconds = reading.iteration.get(_ITERATION_S) if _GENERATIONS in reading.iteration else None
    return 1000 * seconds if seconds is not None and 0 < seconds < 1e6 else None


def _step_ms(before: _Reading, now: _Reading, ran: Mapping[str, float]) -> float | None:
    """Mean time of the steps between two scrapes, where they were decode steps of one size only."""
    if before.seconds is None or now.seconds is None or before.running != now.running:
        return None
    steps = ran.get("decode_cuda_graph", 0.0) + ran.get("decode_none", 0.0)
    if steps < 1 or sum(ran.values()) != steps or now.seconds <= before.seconds:
        return None
    return 1000 * (now.seconds - before.seconds) / steps
