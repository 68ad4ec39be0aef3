"""Probe: starts a real engine with a capture list, gives it work, reads what it says of itself, and stops it.

One class a way to reach an engine (`vllm_server`, `vllm_offline`, ...). What runs on top of it (step times, recorded
requests, the comparison of lists) knows this interface only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from services.capture.probes.device import DeviceIdentity, identity
from tuner.engines.base import Engine, Lists
from workloads.traces.records import EngineObservation

Way = Literal["server", "offline"]
"""server: a process behind HTTP, as in production. offline: the engine's Python class in a child process of ours."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How an engine is to be started.

    Attributes:
        engine: name, version and rules.
        raw_options: the `--set` pairs, which become the engine's own arguments.
        lists: what to capture, exactly as asked; None leaves the choice to the engine.
        model: a folder with a `config.json`, which is all that dummy weights need.
        vocabulary: token ids are drawn below this.
        dummy_weights: random weights in place of files.
        command: what starts Python with the engine installed, e.g. `("python",)`.
        environment: variables on top of the probe's own.
        inherited: variables that the engine's process begins with, below the probe's own; None: those of this process.
        ready_s: most seconds from start to ready.
        cache: a folder for compiled code that outlives the start (`compile_cache.cache_in`), for launches that differ
            in `lists` alone. None: every start compiles anew and keeps nothing.
    """

    engine: Engine
    raw_options: Mapping[str, str]
    lists: Lists | None
    model: Path
    vocabulary: int
    dummy_weights: bool = True
    command: tuple[str, ...] = ("python",)
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, str] | None = None
    ready_s: float = 900.0
    cache: Path | None = None

    @property
    def options(self) -> Any:
        """The engine's options as its rules read them."""
        return self.engine.options(self.raw_options)


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A request of `prompt_tokens` random ids; equal seeds are equal prompts.

    Attributes:
        at_s: when it is sent, in seconds after the first.
    """

    at_s: float
    prompt_tokens: int
    output_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class RequestTiming:
    """What a client saw of one request, in seconds after the run began; `error` instead where it was refused."""

    sent_s: float
    first_s: float
    last_s: float
    output_tokens: int
    error: str | None = None

    @property
    def ttft_ms(self) -> float:
        return (self.first_s - self.sent_s) * 1e3

    @property
    def tpot_ms(self) -> float | None:
        """Milliseconds per token after the first; None with a single token."""
        if self.output_tokens < 2:
            return None
        return (self.last_s - self.first_s) / (self.output_tokens - 1) * 1e3


@dataclass(frozen=True, slots=True)
class Batch:
    """Equal requests handed over at once; row i has the prompt of seed + i."""

    rows: int
    prompt_tokens: int
    output_tokens: int
    seed: int


class RunningEngine(ABC):
    """An engine that is ready. Used by one thread; `stop` in any case.

    Attributes:
        startup_s: seconds from the start of the process to ready.
    """

    startup_s: float

    @property
    @abstractmethod
    def log(self) -> Path:
        """Everything that the engine has printed up to now, as a file of this machine; grows.

        Raises:
            EngineFailed: it is written on another machine, which was lost.
        """

    @abstractmethod
    def observe(self) -> EngineObservation:
        """What its log says up to now: version, list, capture cost, KV tokens."""

    @abstractmethod
    def batch_s(self, batch: Batch) -> float:
        """Seconds from handing a batch over to its last token.

        Raises:
            EngineFailed: a request failed, or the engine ended.
        """

    @abstractmethod
    def serve(self, requests: Sequence[ProbeRequest], on_done: Callable[[int], None]) -> tuple[RequestTiming, ...]:
        """Send requests at their times and wait for all of them; timings in the order of `requests`.

        Args:
            on_done: called with the number of requests finished so far.

        Raises:
            EngineFailed: the engine ended.
        """

    def metrics(self) -> Mapping[str, float]:
        """What the engine has counted since its start, by what is counted; empty where it says nothing.

        Of vLLM's server: `preemptions`, `prompt_tokens`, `generation_tokens`, `prefix_cache_queries` and
        `prefix_cache_hits` (both in tokens), `iterations` (steps that did work).

        Raises:
            EngineFailed: the engine ended.
        """
        return {}

    @abstractmethod
    def stop(self) -> None:
        """End it and everything it started; returns when no process of it is left. May be called twice."""


class Probe(ABC):
    """A way to run one engine at a time."""

    def device(self) -> DeviceIdentity:
        """The GPU that the next engine runs on; that of this process, unless the probe works elsewhere."""
        return identity()

    @abstractmethod
    def start(self, launch: Launch, log: Path) -> RunningEngine:
        """Start and wait until ready; `log` is written from its beginning.

        Raises:
            BadUsage: an option cannot be passed on to this engine.
            EngineFailed: it did not become ready; `kind` says why and nothing of it is left running.
        """


def prompt_ids(tokens: int, seed: int, vocabulary: int) -> list[int]:
    """Random token ids; the lowest ones, where special tokens use to be, are left out."""
    lowest = min(256, vocabulary // 2)
    ids: list[int] = np.random.default_rng(seed).integers(lowest, vocabulary, tokens).tolist()
    return ids
