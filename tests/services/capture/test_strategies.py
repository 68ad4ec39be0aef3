"""Strategies on a CPU, through the conformance suite that the GPU tests use too."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from services.capture.strategies.choose import NAMES, make_strategy
from services.capture.strategies.full import TracedStrategy
from tests.services.capture.programs import StrategyConformance, decode_step
from workloads.errors import BadUsage


class TestEager(StrategyConformance):
    strategy: ClassVar[str] = "eager"


class TestTraced(StrategyConformance):
    strategy: ClassVar[str] = "full"


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
