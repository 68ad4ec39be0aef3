"""Engines as a Python class, in a child process of ours: no HTTP between the request and the engine."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from services.capture.probes import sglang_arguments, vllm_arguments
from services.capture.probes.base import Batch, Launch, Probe, ProbeRequest, RequestTiming, RunningEngine, prompt_ids
from services.capture.probes.device import used_mib, wait_until_clean
from services.capture.probes.failures import EngineFailed, EngineFailure
from services.capture.probes.process import EngineProcess
from workloads.traces.observe import observe_file
from workloads.traces.records import EngineObservation

_CHILD = Path(__file__).parent / "child" / "offline_main.py"
_ANSWER_S = 600.0


class OfflineProbe(Probe):
    """Any engine that `child/` has an adapter for."""

    def start(self, launch: Launch, log: Path) -> RunningEngine:
        arguments, environment = self._arguments(launch)
        before_mib = used_mib()
        command = (*launch.command, str(_CHILD), launch.engine.name)
        environment |= dict(launch.environment)
        process = EngineProcess(command, environment, log, inherited=launch.inherited, keep_pipes=True)
        try:
            pipe = _Pipe(process)
            pipe.send({"arguments": arguments})
            startup_s = process.wait_until(lambda: pipe.poll() is not None, launch.ready_s)
        except BaseException:
            process.stop()
            raise
        return RunningOffline(launch, process, pipe, startup_s, before_mib)

    def _arguments(self, launch: Launch) -> tuple[dict[str, Any], dict[str, str]]:
        if launch.engine.name == "sglang":
            return sglang_arguments.engine_arguments(launch), sglang_arguments.environment(launch)
        arguments = {"model": str(launch.model), **vllm_arguments.engine_arguments(launch)}
        arguments.pop("cudagraph_metrics", None)  # `LLM` logs no statistics
        return arguments, vllm_arguments.environment(launch)


class RunningOffline(RunningEngine):
    """A child that said it is ready."""

    def __init__(
        self, launch: Launch, process: EngineProcess, pipe: _Pipe, startup_s: float, before_mib: float | None
    ) -> None:
        self._launch, self._process, self._pipe, self._before_mib = launch, process, pipe, before_mib
        self.startup_s = startup_s

    @property
    def log(self) -> Path:
        return self._process.log

    def observe(self) -> EngineObservation:
        return observe_file(self.log, self._launch.engine.name)

    def batch_s(self, batch: Batch) -> float:
        prompts = [self._prompt(batch.prompt_tokens, batch.seed + row) for row in range(batch.rows)]
        self._pipe.send({"batch": prompts, "output_tokens": batch.output_tokens})
        return float(self._pipe.answer(_ANSWER_S)["seconds"])

    def serve(self, requests: Sequence[ProbeRequest], on_done: Callable[[int], None]) -> tuple[RequestTiming, ...]:
        asked = [
            {"at_s": r.at_s, "ids": self._prompt(r.prompt_tokens, r.seed), "output_tokens": r.output_tokens}
            for r in requests
        ]
        self._pipe.send({"serve": asked})
        longest_s = requests[-1].at_s + _ANSWER_S
        while "timings" not in (answer := self._pipe.answer(longest_s)):
            on_done(int(answer["done"]))
        return tuple(RequestTiming(sent, first, last, int(n)) for sent, first, last, n in answer["timings"])

    def stop(self) -> None:
        self._process.stop()
        wait_until_clean(self._before_mib)

    def _prompt(self, tokens: int, seed: int) -> list[int]:
        return prompt_ids(tokens, seed, self._launch.vocabulary)


class _Pipe:
    """Lines to and from the child; a thread reads, so that waiting can have an end."""

    def __init__(self, process: EngineProcess) -> None:
        assert process.child.stdin is not None and process.child.stdout is not None
        self._process, self._in = process, process.child.stdin
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, args=(process.child.stdout,), daemon=True).start()

    def send(self, document: dict[str, Any]) -> None:
        """Hand a request over; a child that ended is noticed by `answer`."""
        try:
            self._in.write(json.dumps(document).encode() + b"\n")
            self._in.flush()
        except OSError:
            return

    def poll(self) -> dict[str, Any] | None:
        """The next line if there is one."""
        try:
            return self._lines.get_nowait()
        except queue.Empty:
            return None

    def answer(self, within_s: float) -> dict[str, Any]:
        """The next line.

        Raises:
            EngineFailed: the child ended, or says nothing.
        """
        try:
            found = self._lines.get(timeout=within_s)
        except queue.Empty:
            raise EngineFailed(EngineFailure("timeout", f"no answer within {within_s:.0f} s")) from None
        if found is None:
            self._process.child.wait()
            raise EngineFailed(self._process.failure())
        return found

    def _read(self, stdout: Any) -> None:
        with stdout:
            for line in stdout:
                self._lines.put(json.loads(line))
        self._lines.put(None)
