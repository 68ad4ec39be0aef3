"""The strategy behind a name, on a device."""

from __future__ import annotations

from typing import get_args

import torch

from services.capture.spec import Strategy as StrategyName
from services.capture.strategies.base import Program, Strategy
from services.capture.strategies.breakable import BreakableStrategy
from services.capture.strategies.compiled import CompiledCpuStrategy, CompiledProgram
from services.capture.strategies.eager import EagerStrategy
from services.capture.strategies.full import CudaGraphStrategy, TracedStrategy
from services.capture.strategies.piecewise import PiecewiseStrategy
from services.capture.strategies.reduce_overhead import ReduceOverheadStrategy
from workloads.errors import BadUsage, Unavailable

NAMES: tuple[str, ...] = get_args(StrategyName)


def make_strategy(name: str, program: Program, device: torch.device, *, warmup: int) -> Strategy:
    """A strategy over a program.

    Raises:
        BadUsage: no such strategy.
        Unavailable: the strategy cannot run on this device; the message says why.
    """
    cuda = device.type == "cuda"
    if name == "eager":
        return EagerStrategy(program)
    if name == "full":
        return CudaGraphStrategy(program, warmup=warmup) if cuda else TracedStrategy(program, warmup=warmup)
    if name == "piecewise":
        return PiecewiseStrategy(program, device=device, warmup=warmup)
    if name == "breakable":
        return BreakableStrategy(program, device=device, warmup=warmup)
    if name == "compiled":
        if not cuda:
            return CompiledCpuStrategy(CompiledProgram(program), warmup=warmup)
        return CudaGraphStrategy(CompiledProgram(program), warmup=max(1, warmup))
    if name == "reduce-overhead":
        if not cuda:
            raise Unavailable("reduce-overhead is made of CUDA graphs, and there is no CUDA device", field="strategy")
        return ReduceOverheadStrategy(program)
    raise BadUsage(f"'{name}' is not a strategy, only {', '.join(NAMES)}", field="strategy")
