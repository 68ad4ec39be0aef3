"""Reduce-overhead: torch.compile's own CUDA graph trees; no capture of ours, and nothing to choose but the sizes."""

from __future__ import annotations

import time
from typing import ClassVar

import torch
from torch import Tensor

from services.capture.readings import Preparation
from services.capture.strategies.base import Program, Strategy

_SETTLING_RUNS = 3  # graph trees warm up, record and then replay


class ReduceOverheadStrategy(Strategy):
    """CUDA only. A forward that torch quietly ran without a graph is a refused capture, never a timing."""

    name: ClassVar[str] = "reduce-overhead"

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._compiled = torch.compile(program.plain, mode="reduce-overhead", dynamic=False)
        self._arguments: dict[int, tuple[Tensor, ...]] = {}

    def prepare(self, size: int) -> Preparation:
        from torch._dynamo import mark_static_address
        from torch._dynamo.utils import counters

        arguments = self.program.arguments(size)
        for argument in arguments:
            mark_static_address(argument)  # buffers that a step writes in place may be captured only then
        skipped = counters["inductor"]["cudagraph_skips"]
        began_s = time.perf_counter()
        self._call(arguments)
        torch.cuda.synchronize()
        warm_s = time.perf_counter()
        for _ in range(_SETTLING_RUNS - 1):
            self._call(arguments)
        torch.cuda.synchronize()
        recorded_s = time.perf_counter()
        if counters["inductor"]["cudagraph_skips"] > skipped:
            raise RuntimeError(f"torch refused to capture the compiled forward of size {size} (cudagraph_skips)")
        self._call(arguments)
        torch.cuda.synchronize()
        self._arguments[size] = arguments
        return Preparation(warm_s - began_s, recorded_s - warm_s, time.perf_counter() - recorded_s)

    def run(self, size: int) -> None:
        self._call(self._arguments[size])

    def _call(self, arguments: tuple[Tensor, ...]) -> None:
        with torch.inference_mode(False), torch.no_grad():
            self._compiled(*arguments)

    def close(self) -> None:
        self._arguments.clear()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
