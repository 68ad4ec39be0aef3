"""Strategies on a CPU, through the conformance suite that the GPU tests use too."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import Tensor

from services.capture.correctness import check_size
from services.capture.strategies.base import Around
from services.capture.strategies.breakable import BreakableStrategy
from services.capture.strategies.choose import NAMES, make_strategy
from services.capture.strategies.compiled import CompiledCpuStrategy, CompiledProgram
from services.capture.strategies.eager import EagerStrategy
from services.capture.strategies.full import TracedStrategy
from tests.services.capture.programs import (
    DraftConformance,
    PrefillConformance,
    StrategyConformance,
    VerifyConformance,
    decode_step,
)
from workloads.errors import BadUsage, Unavailable
from workloads.models.attention import Attention


class TestEager(StrategyConformance):
    strategy: ClassVar[str] = "eager"


class TestTraced(StrategyConformance):
    strategy: ClassVar[str] = "full"


class TestPiecewise(StrategyConformance):
    strategy: ClassVar[str] = "piecewise"


class TestBreakable(StrategyConformance):
    strategy: ClassVar[str] = "breakable"


class TestVerifyTraced(VerifyConformance):
    strategy: ClassVar[str] = "full"


class TestVerifyPiecewise(VerifyConformance):
    strategy: ClassVar[str] = "piecewise"


class TestDraftEager(DraftConformance):
    strategy: ClassVar[str] = "eager"


class TestDraftTraced(DraftConformance):
    strategy: ClassVar[str] = "full"


class TestPrefillEager(PrefillConformance):
    strategy: ClassVar[str] = "eager"


class TestPrefillPiecewise(PrefillConformance):
    strategy: ClassVar[str] = "piecewise"


class TestPrefillBreakable(PrefillConformance):
    strategy: ClassVar[str] = "breakable"


def test_a_breakable_pass_stops_only_at_the_points_that_are_named() -> None:
    step, cpu = decode_step(), torch.device("cpu")
    attended: list[int] = []
    inner = step.attention.over

    class Counted:
        def __init__(self, attention: Attention) -> None:
            self.attention = attention

        def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            attended.append(layer)
            return self.attention.run(layer, query, key, value)

    def counted(*tensors: Tensor) -> Attention:
        return Counted(inner(*tensors))

    step.attention.over = counted  # type: ignore[method-assign]
    strategy = BreakableStrategy(step, device=cpu, warmup=0, breaks_at=lambda point: point == "attention.1")
    strategy.prepare(4)
    eager = EagerStrategy(step)
    eager.prepare(4)
    attended.clear()
    step.load(step.batch(4, context_tokens=5), 4)
    strategy.run(4)
    assert attended == [1], "the other layers were recorded whole"
    replayed = step.logits(4).clone()
    eager.run(4)
    torch.testing.assert_close(replayed, step.logits(4), atol=1e-6, rtol=1e-5)


def test_compiled_code_stops_at_the_largest_compiled_size() -> None:
    step, ran = decode_step(), list[int]()
    program = CompiledProgram(step, largest_compiled=8, backend="eager")
    plain = step.compute

    def counted(*arguments: Tensor, around: Around | None = None) -> None:
        ran.append(len(arguments[0]))
        plain(*arguments, around=around)

    step.compute = counted  # type: ignore[method-assign]
    for size in (16, 8):
        program.compute(*program.arguments(size))
    assert ran == [16], "size 8 ran as compiled code"
    compiled = CompiledCpuStrategy(program, warmup=1)
    compiled.prepare(8)
    assert check_size(step, compiled, 8).error < 1e-5


def test_graph_trees_are_refused_where_there_are_no_graphs() -> None:
    with pytest.raises(Unavailable, match="no CUDA device"):
        make_strategy("reduce-overhead", decode_step(), torch.device("cpu"), warmup=1)


def test_full_on_a_cpu_is_a_recorded_list_of_operators() -> None:
    step = decode_step()
    strategy = make_strategy("full", step, torch.device("cpu"), warmup=2)
    assert isinstance(strategy, TracedStrategy)
    preparation = strategy.prepare(4)
    assert preparation.warmup_s > 0 and preparation.record_s > 0
    assert preparation.capture_s == preparation.warmup_s + preparation.record_s


def test_the_output_head_can_stay_outside_the_program() -> None:
    inside, outside = decode_step(head=True), decode_step(head=False)
    for step in (inside, outside):
        strategy = make_strategy("full", step, torch.device("cpu"), warmup=1)
        strategy.prepare(4)
        step.load(step.batch(3, context_tokens=5), 4)
        strategy.run(4)
    torch.testing.assert_close(inside.logits(3), outside.logits(3))
    assert torch.equal(inside.finish(3), inside.logits(3).argmax(-1))


def test_an_unknown_strategy_is_bad_usage() -> None:
    with pytest.raises(BadUsage, match=f"only {', '.join(NAMES)}"):
        make_strategy("magic", decode_step(), torch.device("cpu"), warmup=1)
