"""A small real decode step for the tests, and conformance suites that run on any device."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from services.capture.attention.choose import choose_attention
from services.capture.correctness import check_size
from services.capture.decode_step import DecodeStep
from services.capture.strategies.base import Strategy
from services.capture.strategies.choose import make_strategy
from services.capture.strategies.eager import EagerStrategy
from workloads.models.weights import build_decoder


def decode_step(
    device: str = "cpu", *, model: str = "tiny-qwen3", rows: int = 16, capacity: int = 16, head: bool = True
) -> DecodeStep:
    where = torch.device(device)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    decoder = build_decoder(model, positions=64, device=where, dtype=dtype)
    backend = choose_attention(decoder.config, dtype, where)
    return DecodeStep(decoder, backend, rows=rows, capacity=capacity, lm_head_in_graph=head)


class StrategyConformance:
    """Every strategy captures, replays, equals eager, survives padding and lets go. Subclasses name one."""

    strategy: ClassVar[str]
    device: ClassVar[str] = "cpu"

    @pytest.fixture(params=["tiny-llama", "tiny-qwen3-moe"])
    def step(self, request: pytest.FixtureRequest) -> DecodeStep:
        return decode_step(self.device, model=request.param)

    def make(self, step: DecodeStep) -> Strategy:
        return make_strategy(self.strategy, step, step.decoder.device, warmup=1)

    def test_equals_eager_on_new_inputs(self, step: DecodeStep) -> None:
        strategy, eager = self.make(step), EagerStrategy(step)
        for size in (16, 8, 3):
            assert strategy.prepare(size).first_launch_s > 0
            eager.prepare(size)
        for seed, size in enumerate((3, 16, 8)):
            step.load(step.batch(size, context_tokens=7, seed=seed), size)
            strategy.run(size)
            replayed = step.logits(size).clone()
            eager.run(size)
            atol = 1e-6 if step.decoder.dtype is torch.float32 else 1e-2
            torch.testing.assert_close(replayed, step.logits(size), atol=atol, rtol=1e-5)
        strategy.close()

    def test_outputs_follow_inputs(self, step: DecodeStep) -> None:
        strategy = self.make(step)
        strategy.prepare(4)
        sampled = []
        for seed in range(3):
            step.load(step.batch(4, context_tokens=5, seed=seed), 4)
            strategy.run(4)
            sampled.append(step.logits(4).clone())
        assert not torch.equal(sampled[0], sampled[1]) and not torch.equal(sampled[1], sampled[2])
        strategy.close()

    def test_real_rows_do_not_see_the_padding(self, step: DecodeStep) -> None:
        strategy = self.make(step)
        for size in (16, 7, 1):
            strategy.prepare(size)
            check = check_size(step, strategy, size, seed=size)
            assert check.rows == max(1, size * 2 // 3)
            assert check.error <= 1.5 * check.eager_error + 1e-2
        strategy.close()

    def test_a_closed_strategy_runs_nothing(self, step: DecodeStep) -> None:
        strategy = self.make(step)
        strategy.prepare(2)
        strategy.close()
        strategy.close()
        with pytest.raises(KeyError):
            strategy.run(2)
