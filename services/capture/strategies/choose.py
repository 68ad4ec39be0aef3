"""The strategy behind a name, on a device."""

from __future__ import annotations

import torch

from services.capture.strategies.base import Program, Strategy
from services.capture.strategies.eager import EagerStrategy
from services.capture.strategies.full import CudaGraphStrategy, TracedStrategy
from workloads.errors import BadUsage

NAMES = ("full", "eager")


def make_strategy(name: str, program: Program, device: torch.device, *, warmup: int) -> Strategy:
    """A strategy over a program.

    Raises:
        BadUsage: no such strategy.
    """
    if name == "eager":
        return EagerStrategy(program)
    if name == "full":
        kind = CudaGraphStrategy if device.type == "cuda" else TracedStrategy
        return kind(program, warmup=warmup)
    raise BadUsage(f"'{name}' is not a strategy, only {', '.join(NAMES)}", field="strategy")
