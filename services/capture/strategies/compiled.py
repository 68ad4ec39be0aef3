"""Compiled: `torch.compile` up to a largest compiled size, then captured; and torch's own graphs, `reduce-overhead`."""

from __future__ import annotations

import time
from typing import ClassVar

import torch
from torch import Tensor

from services.capture.readings import Preparation
from services.capture.strategies.base import Around, Piece, Program, Strategy


class CompiledProgram:
    """A program whose forward is compiled for each size up to `largest_compiled`, and eager above.

    Args:
        backend: torch.compile's own name for what turns the forward into code.
    """

    def __init__(self, program: Program, *, largest_compiled: int | None = None, backend: str = "inductor") -> None:
        self.program, self.largest_compiled = program, largest_compiled
        self._compiled = torch.compile(program.plain, dynamic=False, backend=backend)

    def arguments(self, size: int) -> tuple[Tensor, ...]:
        return self.program.arguments(size)

    def compute(self, *arguments: Tensor, around: Around | None = None) -> None:
        size = len(arguments[0])
        small = self.largest_compiled is None or size <= self.largest_compiled
        if not small or around is not None:
            self.program.compute(*arguments, around=around)
            return
        with torch.inference_mode(False), torch.no_grad():
            self._compiled(*arguments)

    def plain(self, *arguments: Tensor, around: Around | None = None) -> None:
        self.program.plain(*arguments, around=around)

    def pieces(self, *arguments: Tensor) -> list[Piece]:
        return self.program.pieces(*arguments)


class CompiledCpuStrategy(Strategy):
    """Compiled code without a capture: what `compiled` means where there are no graphs."""

    name: ClassVar[str] = "compiled"

    def __init__(self, program: CompiledProgram, *, warmup: int) -> None:
        super().__init__(program)
        self.warmup = warmup
        self._arguments: dict[int, tuple[Tensor, ...]] = {}

    def prepare(self, size: int) -> Preparation:
        arguments = self.program.arguments(size)
        began_s = time.perf_counter()
        for _ in range(max(1, self.warmup)):
            self.program.compute(*arguments)
        warm_s = time.perf_counter()
        self.program.compute(*arguments)
        self._arguments[size] = arguments
        return Preparation(warm_s - began_s, 0.0, time.perf_counter() - warm_s)

    def run(self, size: int) -> None:
        self.program.compute(*self._arguments[size])

    def close(self) -> None:
        self._arguments.clear()
