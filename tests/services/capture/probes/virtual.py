"""A probe whose engine takes no time: every duration is computed, so that figures can be asserted exactly.

Starts, HTTP and processes are tested elsewhere; this is for what is made of their readings. What can spoil a step time
in a real engine is here too: requests of one post that arrive one after the other, prompts that are computed in chunks
and kept by the block in a KV cache that is full at some time, and a client that is late now and then.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from services.capture.probes.base import Batch, Launch, Probe, ProbeRequest, RequestTiming, RunningEngine
from services.capture.probes.device import DeviceIdentity
from services.capture.probes.failures import EngineFailed, EngineFailure
from tuner.engines.base import Lists
from workloads.traces.records import EngineObservation

PREFILL_MS_PER_TOKEN = 0.02
BLOCK_TOKENS = 16
STEP_BUDGET_TOKENS = 8192


@dataclass
class Costs:
    """step = bucket_ms(bucket) + a x KV tokens + h x rows, and without a graph `eager_factor` times as long.

    Attributes:
        noise: shares by which starts differ.
        arrival_ms: between two requests of one post, on average: anything from nothing to twice that.
        jitter_ms: a run takes up to that much more or less for its client.
        kv_tokens: of the KV cache.
        busy_ms, computed_tokens: engine time and prompt tokens computed so far, start-up left out.
    """

    attention_ms_per_mtoken: float = 40.0
    row_ms: float = 0.002
    noise: Sequence[float] = (0.0,)
    arrival_ms: float = 0.0
    jitter_ms: float = 0.0
    kv_tokens: int = 500_000
    eager_factor: float = 2.0
    busy_ms: float = 0.0
    computed_tokens: int = 0
    started: list[Lists | None] = field(default_factory=list)

    def bucket_ms(self, bucket: int) -> float:
        return 4.0 + 0.02 * bucket

    def step_ms(self, rows: int, context_tokens: float, sizes: Sequence[int], start: int) -> float:
        bucket = min((size for size in sizes if size >= rows), default=0)
        g_ms = self.bucket_ms(bucket) if bucket else self.eager_factor * self.bucket_ms(rows)
        real_ms = self.attention_ms(rows, context_tokens) + self.row_ms * rows
        return (g_ms + real_ms) * (1 + self.noise[start % len(self.noise)])

    def attention_ms(self, rows: int, context_tokens: float) -> float:
        return self.attention_ms_per_mtoken * 1e-6 * rows * context_tokens

    def prompt_ms(self, tokens: int, sizes: Sequence[int]) -> float:
        """What the prompt tokens of a step add to it."""
        return PREFILL_MS_PER_TOKEN * tokens


@dataclass
class MixedCosts(Costs):
    """Prompt tokens run in graphs of the same sizes: a floor, and a price by the token of the bucket; without a graph
    `eager_factor` times that of their number.

    Attributes:
        floor_ms, bucket_token_ms: of a step.
    """

    floor_ms: float = 5.0
    bucket_token_ms: float = 0.04

    def mixed_ms(self, tokens: int) -> float:
        return self.floor_ms + self.bucket_token_ms * tokens

    def prompt_ms(self, tokens: int, sizes: Sequence[int]) -> float:
        bucket = min((size for size in sizes if size >= tokens), default=0)
        return self.mixed_ms(bucket) if bucket else self.eager_factor * self.mixed_ms(tokens)


@dataclass
class WaveCosts(Costs):
    """Attention in waves, as the readings of one GPU show it: a wave lasts as long as its longest row whether it is
    full or not, and rows are split as long as all their parts fit into one.

    Attributes:
        wave_rows: rows that fill the GPU once.
    """

    wave_rows: int = 16

    def attention_ms(self, rows: int, context_tokens: float) -> float:
        parts = max(1, self.wave_rows // rows)
        waves = -(-rows * parts // self.wave_rows)
        return super().attention_ms(self.wave_rows, waves * context_tokens / parts)


class VirtualProbe(Probe):
    def __init__(
        self,
        costs: Costs,
        refuses: Callable[[Lists | None], bool] = lambda lists: False,
        device: DeviceIdentity | None = None,
    ) -> None:
        self.costs, self.refuses = costs, refuses
        self._device = device or DeviceIdentity(None, None)

    def device(self) -> DeviceIdentity:
        return self._device

    def start(self, launch: Launch, log: Path) -> RunningEngine:
        log.write_text("")
        self.costs.started.append(launch.lists)
        if self.refuses(launch.lists):
            raise EngineFailed(EngineFailure("refused", "customized sizes should be consistent"))
        name = launch.engine.list_names[0]
        sizes = (launch.lists or launch.engine.default_lists(launch.options))[name]
        return VirtualEngine(self.costs, tuple(sizes), len(self.costs.started), log)


class BlockCache:
    """Blocks of prompts as vLLM keeps them: a queue of free ones, used from its front; the ends of prompts go first."""

    def __init__(self, tokens: int) -> None:
        self._free: OrderedDict[int, tuple[int, int] | None] = OrderedDict.fromkeys(range(tokens // BLOCK_TOKENS))
        self._block_of: dict[tuple[int, int], int] = {}
        self._held: dict[int, list[tuple[int, tuple[int, int] | None]]] = {}

    def admit(self, prompt: int, tokens: int, output_tokens: int) -> int | None:
        """Prompt tokens that must be computed; None where there is no room for the request."""
        hit = 0
        while (hit + 1) * BLOCK_TOKENS < tokens and (prompt, hit) in self._block_of:
            hit += 1
        keys: list[tuple[int, int] | None] = [(prompt, i) for i in range(tokens // BLOCK_TOKENS)]
        keys += [None] * (-(-(tokens + output_tokens) // BLOCK_TOKENS) - len(keys))
        held = [(self._block_of[prompt, i], keys[i]) for i in range(hit)]
        if len(keys) - hit > len(self._free) - sum(block in self._free for block, _ in held):
            return None
        for block, _ in held:
            self._free.pop(block, None)
        for key in keys[hit:]:
            block, evicted = self._free.popitem(last=False)
            if evicted is not None:
                del self._block_of[evicted]
            known = key is None or key in self._block_of
            held.append((block, None if known else key))
            if key is not None and not known:
                self._block_of[key] = block
        self._held[prompt] = held
        return tokens - hit * BLOCK_TOKENS

    def release(self, prompt: int) -> None:
        for block, key in reversed(self._held.pop(prompt)):
            self._free[block] = key


class VirtualEngine(RunningEngine):
    def __init__(self, costs: Costs, sizes: tuple[int, ...], start: int, log: Path) -> None:
        self.costs, self.sizes, self.number, self._log, self.startup_s = costs, sizes, start, log, 40.0
        self._cache, self._random = BlockCache(costs.kv_tokens), random.Random(start)

    @property
    def log(self) -> Path:
        return self._log

    def observe(self) -> EngineObservation:
        cost_s, cost_mib = 0.5 + 0.1 * len(self.sizes), 10.0 * max(self.sizes) + 5.0 * len(self.sizes)
        lists = {"capture": self.sizes}
        return EngineObservation("vllm", "0.23.0", lists, {}, cost_s, cost_mib, kv_tokens=self.costs.kv_tokens)

    def batch_s(self, batch: Batch) -> float:
        """Step by step: who has come and fits joins, as many prompt tokens as a step takes are computed."""
        gaps_ms = (2 * self.costs.arrival_ms * self._random.random() for _ in range(batch.rows - 1))
        due_ms = list(accumulate(gaps_ms, initial=0.0))
        now_ms, came, running, made = 0.0, 0, [], dict[int, int]()
        while came < batch.rows or running:
            if not running:
                now_ms = max(now_ms, due_ms[came])
            computed, joined = 0, []
            while came < batch.rows and due_ms[came] <= now_ms and computed < STEP_BUDGET_TOKENS:
                prompt = batch.seed + came
                tokens = self._cache.admit(prompt, batch.prompt_tokens, batch.output_tokens)
                if tokens is None:
                    break
                computed, came = computed + tokens, came + 1
                joined.append(prompt)
            if computed:
                now_ms += self.costs.prompt_ms(computed, self.sizes)
            self.costs.computed_tokens += computed
            if running:
                context = batch.prompt_tokens + sum(made[prompt] for prompt in running) / len(running)
                now_ms += self._ms(len(running), context)
            running += joined
            for prompt in running:
                made[prompt] = made.get(prompt, 0) + 1
            for prompt in [prompt for prompt in running if made[prompt] == batch.output_tokens]:
                self._cache.release(prompt)
            running = [prompt for prompt in running if made[prompt] < batch.output_tokens]
        self.costs.busy_ms += now_ms
        return max(0.0, now_ms + self.costs.jitter_ms * self._random.uniform(-1, 1)) / 1e3

    def serve(self, requests: Sequence[ProbeRequest], on_done: Callable[[int], None]) -> tuple[RequestTiming, ...]:
        """Every request on its own, beside sixteen others that nobody looks at."""
        timings = []
        for request in requests:
            first_s = request.at_s + self.costs.prompt_ms(request.prompt_tokens, self.sizes) / 1e3
            step_s = self._ms(16, request.prompt_tokens) / 1e3
            last_s = first_s + step_s * (request.output_tokens - 1)
            timings.append(RequestTiming(request.at_s, first_s, last_s, request.output_tokens))
        on_done(len(requests))
        return tuple(timings)

    def stop(self) -> None:
        return

    def _ms(self, rows: int, context_tokens: float) -> float:
        return self.costs.step_ms(rows, context_tokens, self.sizes, self.number)
