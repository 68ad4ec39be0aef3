"""A small real decode step for the tests, and conformance suites that run on any device."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from services.capture.attention.base import DecodeAttention
from services.capture.attention.choose import choose_attention
from services.capture.correctness import check_size
from services.capture.decode_step import Batch, DecodeStep
from services.capture.draft_correctness import check_draft
from services.capture.draft_step import DraftStep
from services.capture.prefill_correctness import check_prefill
from services.capture.prefill_step import PrefillStep
from services.capture.spec import DraftShape
from services.capture.strategies.base import Strategy
from services.capture.strategies.choose import make_strategy
from services.capture.strategies.eager import EagerStrategy
from workloads.models.decoder import Decoder
from workloads.models.weights import build_decoder


def decode_step(
    device: str = "cpu",
    *,
    model: str = "tiny-qwen3",
    rows: int = 16,
    capacity: int = 16,
    head: bool = True,
    tokens_per_row: int = 1,
) -> DecodeStep:
    decoder, backend = _model(device, model, tokens_per_row)
    return DecodeStep(
        decoder, backend, rows=rows, capacity=capacity, lm_head_in_graph=head, tokens_per_row=tokens_per_row
    )


def prefill_step(device: str = "cpu", *, model: str = "tiny-qwen3", rows: int = 16) -> PrefillStep:
    return PrefillStep(*_model(device, model, 1), rows=rows)


def draft_step(
    device: str = "cpu", *, model: str = "tiny-qwen3", rows: int = 16, topk: int = 3, num_steps: int = 4
) -> DraftStep:
    return DraftStep(*_model(device, model, 1), DraftShape(topk, num_steps), rows=rows, capacity=16)


def _model(device: str, model: str, tokens_per_row: int) -> tuple[Decoder, type[DecodeAttention]]:
    where = torch.device(device)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    decoder = build_decoder(model, positions=64, device=where, dtype=dtype)
    return decoder, choose_attention(decoder.config, dtype, where, tokens_per_row=tokens_per_row)


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


class VerifyConformance(StrategyConformance):
    """The same with four tokens a row, as drafts are verified."""

    @pytest.fixture(params=["tiny-llama", "tiny-qwen3-moe"])
    def step(self, request: pytest.FixtureRequest) -> DecodeStep:
        return decode_step(self.device, model=request.param, tokens_per_row=4)

    def test_a_row_of_drafts_is_the_steps_it_stands_for(self) -> None:
        """Four tokens at once leave the logits that one token after the other leaves."""
        at_once = decode_step(self.device, model="tiny-llama", rows=2, tokens_per_row=4)
        tokens = torch.arange(8) + 3
        lengths = torch.tensor([9, 4])
        pin = self.device == "cuda"
        verify = self.make(at_once)
        verify.prepare(2)
        at_once.load(Batch.of(tokens, lengths, pin=pin), 2)
        verify.run(2)
        single = decode_step(self.device, model="tiny-llama", rows=2)
        eager = EagerStrategy(single)
        eager.prepare(2)
        for draft in range(4):
            now = tokens.view(2, 4)[:, draft]
            single.load(Batch.of(now, lengths - 3 + draft, pin=pin), 2)
            eager.run(2)
            expected = at_once.logits(2).view(2, 4, -1)[:, draft]
            atol = 1e-5 if self.device == "cpu" else 3e-2
            torch.testing.assert_close(single.logits(2), expected, atol=atol, rtol=atol)
        verify.close()


class DraftConformance:
    """Every way to run a draft captures, replays, equals eager bitwise, survives padding and lets go."""

    strategy: ClassVar[str]
    device: ClassVar[str] = "cpu"

    @pytest.fixture(params=[("tiny-llama", 1, 2), ("tiny-qwen3-moe", 4, 4)])
    def step(self, request: pytest.FixtureRequest) -> DraftStep:
        model, topk, num_steps = request.param
        return draft_step(self.device, model=model, topk=topk, num_steps=num_steps)

    def make(self, step: DraftStep) -> Strategy:
        return make_strategy(self.strategy, step, step.decoder.device, warmup=1)

    def test_equals_eager_bitwise_on_new_inputs(self, step: DraftStep) -> None:
        strategy, eager = self.make(step), EagerStrategy(step)
        for size in (16, 8, 3):
            assert strategy.prepare(size).first_launch_s > 0
            eager.prepare(size)
        drafted = []
        for seed, size in enumerate((3, 16, 8)):
            step.load(step.batch_of(torch.arange(size) % 9 + 1, seed=seed), size)
            strategy.run(size)
            tree = [part.clone() for part in step.tree(size)]
            step.load(step.batch_of(torch.arange(size) % 9 + 1, seed=seed), size)
            eager.run(size)
            for replayed, expected in zip(tree, step.tree(size), strict=True):
                assert torch.equal(replayed, expected)
            drafted.append(tree[2][0, 0])
            assert step.finish(size).shape == (step.shape.forwards, size, step.shape.topk)
        assert not torch.equal(drafted[0], drafted[1]) and not torch.equal(drafted[1], drafted[2])
        strategy.close()

    def test_real_requests_do_not_see_the_padding(self, step: DraftStep) -> None:
        strategy = self.make(step)
        for size in (16, 7, 1):
            strategy.prepare(size)
            check = check_draft(step, strategy, size, seed=size)
            assert check.rows == max(1, size * 2 // 3) and check.same_as_eager
            assert check.error <= (1e-6 if self.device == "cpu" else 2e-2)
        strategy.close()

    def test_the_best_continuations_are_kept(self, step: DraftStep) -> None:
        strategy = self.make(step)
        strategy.prepare(4)
        step.load(step.batch_of(torch.tensor([5, 9, 2]), seed=4), 4)
        strategy.run(4)
        tokens, parents, shares = step.tree(3)
        k = step.shape.topk
        assert (shares.diff(dim=-1) <= 0).all(), "best first"
        assert (parents >= 0).all() and (parents < k).all()
        assert (shares[1:].amax(-1) <= shares[:-1].amax(-1)).all(), "a product of probabilities does not grow"
        together = parents * step.decoder.config.vocab_size + tokens
        assert all(len(set(branch.tolist())) == k for level in together for branch in level), "no token twice"
        strategy.close()

    def test_a_closed_strategy_runs_nothing(self, step: DraftStep) -> None:
        strategy = self.make(step)
        strategy.prepare(2)
        strategy.close()
        with pytest.raises(KeyError):
            strategy.run(2)


class PrefillConformance:
    """Strategies that leave attention eager, over token counts. Subclasses name one."""

    strategy: ClassVar[str]
    device: ClassVar[str] = "cpu"

    @pytest.fixture(params=["tiny-llama", "tiny-qwen3-moe"])
    def step(self, request: pytest.FixtureRequest) -> PrefillStep:
        return prefill_step(self.device, model=request.param)

    def make(self, step: PrefillStep) -> Strategy:
        return make_strategy(self.strategy, step, step.decoder.device, warmup=1)

    def test_any_prompt_up_to_the_size_runs_through_it(self, step: PrefillStep) -> None:
        strategy = self.make(step)
        for size in (16, 9, 1):
            strategy.prepare(size)
            check = check_prefill(step, strategy, size, seed=size)
            assert check.rows == max(1, size * 2 // 3)
        step.load(step.full(5, seed=3), 9)
        strategy.run(9)
        padded = step.hidden(5).clone()
        eager = EagerStrategy(step)
        eager.prepare(5)
        step.load(step.full(5, seed=3), 5)
        eager.run(5)
        atol = 1e-5 if self.device == "cpu" else 5e-2
        torch.testing.assert_close(padded, step.hidden(5), atol=atol, rtol=atol)
        assert step.finish(5).shape == (1,)
        strategy.close()

    def test_a_size_can_be_prepared_after_a_longer_prompt(self, step: PrefillStep) -> None:
        strategy = self.make(step)
        strategy.prepare(16)
        step.load(step.full(16), 16)
        strategy.run(16)
        strategy.prepare(4)
        check_prefill(step, strategy, 4)
        strategy.close()
