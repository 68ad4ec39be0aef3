"""Engines that serve HTTP: one child process, a port on loopback, requests as a client would send them."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from services.capture.probes.base import Batch, Launch, Probe, ProbeRequest, RequestTiming, RunningEngine, prompt_ids
from services.capture.probes.device import used_mib, wait_until_clean
from services.capture.probes.failures import EngineFailed, EngineFailure
from services.capture.probes.http import HttpError, allow_many_streams, get_text, is_healthy, post, post_stream
from services.capture.probes.process import EngineProcess
from workloads.traces.observe import observe_file
from workloads.traces.prometheus_text import parse_line
from workloads.traces.records import EngineObservation

_BATCH_S = 600.0
_STALLED_S = 600.0
_NO_PROMPT = [-1]  # stands for prompts that are written already; no id is negative
_METRICS_S = 10.0


class ServerProbe(Probe):
    """What the servers share; an engine adds its command, its paths and its bodies."""

    generate_path: str
    counters: ClassVar[Mapping[str, str]] = {}
    """Names of samples at /metrics -> what `RunningEngine.metrics` calls them; empty: it is not asked."""

    @abstractmethod
    def command(self, launch: Launch, port: int) -> tuple[str, ...]:
        """The whole command line.

        Raises:
            BadUsage: an option cannot be passed on.
        """

    @abstractmethod
    def environment(self, launch: Launch) -> dict[str, str]:
        """Variables of the engine's process."""

    @abstractmethod
    def body(self, prompts: Sequence[list[int]], output_tokens: int, *, stream: bool) -> dict[str, Any]:
        """The document of one post: exactly `output_tokens` for each prompt; a stream has one prompt."""

    @abstractmethod
    def tokens_of(self, event: dict[str, Any]) -> int:
        """Output tokens that an answer, or the last event of a stream, counts."""

    def start(self, launch: Launch, log: Path) -> RunningEngine:
        before_mib, port = used_mib(), free_port()
        environment = self.environment(launch) | dict(launch.environment)
        allow_many_streams()
        process = EngineProcess(self.command(launch, port), environment, log, inherited=launch.inherited)
        try:
            startup_s = process.wait_until(lambda: is_healthy(port), launch.ready_s)
        except BaseException:
            process.stop()
            raise
        return RunningServer(self, launch, process, port, startup_s, before_mib)


class RunningServer(RunningEngine):
    """A server that answered its health check."""

    def __init__(
        self,
        probe: ServerProbe,
        launch: Launch,
        process: EngineProcess,
        port: int,
        startup_s: float,
        before_mib: float | None,
    ) -> None:
        self._probe, self._launch, self._process, self._port = probe, launch, process, port
        self._before_mib = before_mib
        self._written: tuple[tuple[int, int, int] | None, str] = None, ""
        self.startup_s = startup_s

    @property
    def log(self) -> Path:
        return self._process.log

    def observe(self) -> EngineObservation:
        return observe_file(self.log, self._launch.engine.name)

    def batch_s(self, batch: Batch) -> float:
        body = self._body(batch)
        begin_s = time.perf_counter()
        try:
            answer = post(self._port, self._probe.generate_path, body, _BATCH_S)
        except HttpError as error:
            raise self._failed(str(error)) from None
        seconds = time.perf_counter() - begin_s
        made, wanted = self._probe.tokens_of(answer), batch.rows * batch.output_tokens
        if made != wanted:
            raise EngineFailed(EngineFailure("refused", f"{made} tokens were generated, {wanted} were asked for"))
        return seconds

    def serve(self, requests: Sequence[ProbeRequest], on_done: Callable[[int], None]) -> tuple[RequestTiming, ...]:
        # Bodies are made beforehand: a client that is late with one arrival is late with all that follow.
        bodies = [
            json.dumps(self._probe.body([self._prompt(r.prompt_tokens, r.seed)], r.output_tokens, stream=True)).encode()
            for r in requests
        ]
        timings = asyncio.run(self._serve(requests, bodies, on_done))
        if self._process.child.poll() is not None:
            raise EngineFailed(self._process.failure())
        return timings

    def metrics(self) -> Mapping[str, float]:
        if not self._probe.counters:
            return {}
        try:
            text = get_text(self._port, "/metrics", _METRICS_S)
        except HttpError as error:
            raise self._failed(str(error)) from None
        found: defaultdict[str, float] = defaultdict(float)
        for line in text.splitlines():
            sample = parse_line(line)
            if sample is not None and (name := self._probe.counters.get(sample[0].name)):
                found[name] += sample[0].value  # over the engines of one server
        return dict(found)

    def stop(self) -> None:
        self._process.stop()
        wait_until_clean(self._before_mib)

    async def _serve(
        self, requests: Sequence[ProbeRequest], bodies: Sequence[bytes], on_done: Callable[[int], None]
    ) -> tuple[RequestTiming, ...]:
        begin_s, done = time.perf_counter(), 0

        async def one(request: ProbeRequest, body: bytes) -> RequestTiming:
            nonlocal done
            await asyncio.sleep(max(0.0, begin_s + request.at_s - time.perf_counter()))
            sent_s = time.perf_counter()
            try:
                async with asyncio.timeout(_STALLED_S):
                    seen = await post_stream(self._port, self._probe.generate_path, body)
            except (HttpError, TimeoutError) as error:
                now_s = time.perf_counter() - begin_s
                return RequestTiming(sent_s - begin_s, now_s, now_s, 0, str(error) or "no answer in time")
            finally:
                done += 1
                on_done(done)
            tokens = self._probe.tokens_of(seen.last_event)
            return RequestTiming(sent_s - begin_s, seen.first_s - begin_s, seen.last_s - begin_s, tokens)

        return tuple(await asyncio.gather(*(one(r, b) for r, b in zip(requests, bodies, strict=True))))

    def _body(self, batch: Batch) -> bytes:
        """The runs of a case differ in their output only. Their prompts are written once: of 512 rows that takes as
        long as several steps, four to six times a case."""
        asked = (batch.rows, batch.prompt_tokens, batch.seed)
        if self._written[0] != asked:
            prompts = [self._prompt(batch.prompt_tokens, batch.seed + row) for row in range(batch.rows)]
            self._written = asked, json.dumps(prompts)
        frame = json.dumps(self._probe.body([_NO_PROMPT], batch.output_tokens, stream=False))
        return frame.replace(json.dumps([_NO_PROMPT]), self._written[1]).encode()

    def _prompt(self, tokens: int, seed: int) -> list[int]:
        return prompt_ids(tokens, seed, self._launch.vocabulary)

    def _failed(self, answer: str) -> EngineFailed:
        if self._process.child.poll() is not None:
            return EngineFailed(self._process.failure())
        return EngineFailed(EngineFailure("refused", answer))


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
