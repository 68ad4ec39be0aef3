"""What strategies that alternate recorded stretches with eager calls share: warm-up, order of a step, and freeing."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from services.capture.readings import Preparation
from services.capture.strategies.base import Program, Strategy
from services.capture.strategies.capture_stream import capture_stream
from services.capture.strategies.recorders import GraphRecorder, OperatorRecorder, Recorder
from services.capture.timing import synchronize

Call = Callable[[], None]


class SegmentedStrategy(Strategy):
    """A size is a list of calls: replays of recorded stretches and eager calls between them.

    Args:
        warmup: forwards before recording.
    """

    def __init__(self, program: Program, *, device: torch.device, warmup: int) -> None:
        super().__init__(program)
        self.device, self.warmup = device, warmup
        self._calls: dict[int, list[Call]] = {}
        self._recorders: dict[int, Recorder] = {}
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self._stream = capture_stream() if device.type == "cuda" else None

    @abstractmethod
    def record(self, size: int, recorder: Recorder) -> list[Call]:
        """Record one size; what is recorded need not run yet."""

    @torch.inference_mode()
    def prepare(self, size: int) -> Preparation:
        arguments = self.program.arguments(size)
        recorder: Recorder = OperatorRecorder() if self._pool is None else GraphRecorder(self._pool)
        synchronize(self.device)
        began_s = time.perf_counter()
        with self._side_stream():
            for _ in range(self.warmup):
                self.program.compute(*arguments)
            synchronize(self.device)
            warm_s = time.perf_counter()
            try:
                calls = self.record(size, recorder)
            except BaseException:
                recorder.abandon()
                raise
        synchronize(self.device)
        recorded_s = time.perf_counter()
        for call in calls:
            call()
        synchronize(self.device)
        self._calls[size], self._recorders[size] = calls, recorder
        launched_s, instantiate_s = time.perf_counter() - recorded_s, recorder.instantiate_s
        return Preparation(warm_s - began_s, recorded_s - warm_s - instantiate_s, launched_s, instantiate_s)

    @contextmanager
    def _side_stream(self) -> Iterator[None]:
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.current_stream().wait_stream(self._stream)

    @torch.inference_mode()
    def run(self, size: int) -> None:
        for call in self._calls[size]:
            call()

    def close(self) -> None:
        synchronize(self.device)
        self._calls.clear()
        while self._recorders:
            recorder = self._recorders.popitem()[1]
            for graph in recorder.graphs if isinstance(recorder, GraphRecorder) else ():
                graph.reset()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
