"""Full: the whole forward of a size recorded once and replayed.

On CUDA a real `torch.cuda.CUDAGraph` per size, all in one memory pool. On a CPU there are no graphs: the forward is
traced once per size by `make_fx` into a list of ATen operators over the same fixed buffers, and running it skips the
module code. That is a static-shape program, reported with `device: cpu`, and never called a CUDA graph.
"""

from __future__ import annotations

import time
from typing import ClassVar

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from services.capture.readings import Preparation
from services.capture.strategies.base import Program, Strategy
from services.capture.strategies.capture_stream import capture_stream


class CudaGraphStrategy(Strategy):
    """One CUDA graph per size in a shared pool; capture largest first, so that smaller ones fit into its memory.

    Args:
        warmup: forwards on the capture stream before recording.
    """

    name: ClassVar[str] = "full"

    def __init__(self, program: Program, *, warmup: int) -> None:
        super().__init__(program)
        self.warmup = warmup
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._stream = capture_stream()
        self._pool = torch.cuda.graph_pool_handle()

    def prepare(self, size: int) -> Preparation:
        arguments = self.program.arguments(size)
        torch.cuda.synchronize()
        began_s = time.perf_counter()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(self.warmup):
                self.program.compute(*arguments)
        torch.cuda.synchronize()
        warm_s = time.perf_counter()
        graph = torch.cuda.CUDAGraph(keep_graph=True)  # so that leaving the block does not instantiate yet
        # thread_local: other threads of a worker may allocate.
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            self.program.compute(*arguments)
        torch.cuda.synchronize()
        recorded_s = time.perf_counter()
        graph.instantiate()
        ready_s = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        self._graphs[size] = graph
        launched_s = time.perf_counter() - ready_s
        return Preparation(warm_s - began_s, recorded_s - warm_s, launched_s, ready_s - recorded_s)

    def run(self, size: int) -> None:
        self._graphs[size].replay()

    def close(self) -> None:
        torch.cuda.synchronize()
        while self._graphs:
            self._graphs.popitem()[1].reset()
        torch.cuda.empty_cache()


class TracedStrategy(Strategy):
    """One traced operator list per size, for CPUs; see the module docstring."""

    name: ClassVar[str] = "full"

    def __init__(self, program: Program, *, warmup: int) -> None:
        super().__init__(program)
        self.warmup = warmup
        self._traced: dict[int, tuple[GraphModule, tuple[Tensor, ...]]] = {}

    @torch.inference_mode()
    def prepare(self, size: int) -> Preparation:
        arguments = self.program.arguments(size)
        began_s = time.perf_counter()
        for _ in range(self.warmup):
            self.program.compute(*arguments)
        warm_s = time.perf_counter()
        traced = make_fx(self.program.compute)(*arguments)
        recorded_s = time.perf_counter()
        traced(*arguments)
        self._traced[size] = (traced, arguments)
        return Preparation(warm_s - began_s, recorded_s - warm_s, time.perf_counter() - recorded_s)

    @torch.inference_mode()
    def run(self, size: int) -> None:
        traced, arguments = self._traced[size]
        traced(*arguments)

    def close(self) -> None:
        self._traced.clear()
