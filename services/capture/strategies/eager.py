"""Eager: the program as it is, launched kernel by kernel."""

from __future__ import annotations

import time
from typing import ClassVar

from torch import Tensor

from services.capture.readings import Preparation
from services.capture.strategies.base import Program, Strategy
from services.capture.timing import synchronize


class EagerStrategy(Strategy):
    name: ClassVar[str] = "eager"

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._arguments: dict[int, tuple[Tensor, ...]] = {}

    def prepare(self, size: int) -> Preparation:
        arguments = self.program.arguments(size)
        began_s = time.perf_counter()
        self.program.compute(*arguments)
        synchronize(arguments[0].device)
        self._arguments[size] = arguments
        return Preparation(0.0, 0.0, time.perf_counter() - began_s)

    def run(self, size: int) -> None:
        self.program.compute(*self._arguments[size])

    def close(self) -> None:
        self._arguments.clear()
