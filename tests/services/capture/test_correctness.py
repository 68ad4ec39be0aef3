"""A wrong graph is a failed measurement that names its size; a right one is never refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from services.capture.attention.dense import DenseAttention
from services.capture.correctness import check_size
from services.capture.decode_step import DecodeStep
from services.capture.strategies.base import Around
from services.capture.strategies.eager import EagerStrategy
from services.capture.strategies.full import TracedStrategy
from tests.services.capture.programs import decode_step
from workloads.errors import MeasurementFailed
from workloads.models.attention import CausalAttention
from workloads.models.reference import reference_logits


class StaleGraph(TracedStrategy):
    """Replays what it recorded on a copy of the tokens: new tokens never reach it."""

    def prepare(self, size: int):  # type: ignore[no-untyped-def]
        preparation = super().prepare(size)
        traced, arguments = self._traced[size]
        self._traced[size] = (traced, (arguments[0].clone(), *arguments[1:]))
        return preparation


class LeakyStep(DecodeStep):
    """Lets padded rows leak into real ones through a mean over the batch."""

    @torch.inference_mode()
    def compute(self, *arguments: Tensor, around: Around | None = None) -> None:
        super().compute(*arguments, around=around)
        arguments[2].add_(arguments[2].mean(dim=0))


def test_right_sizes_pass_with_their_errors_stated() -> None:
    step = decode_step()
    strategy = TracedStrategy(step, warmup=1)
    for size in (16, 9, 2, 1):
        strategy.prepare(size)
        check = check_size(step, strategy, size)
        assert check.error is not None and check.eager_error is not None
        assert 0 < check.error < 1e-5  # float32 against float64
        assert check.error <= 1.5 * check.eager_error + 1e-6


def test_a_size_that_is_bitwise_eager_needs_no_reference_and_one_that_is_not_gets_it_anyway() -> None:
    step = decode_step()
    right, wrong = TracedStrategy(step, warmup=1), StaleGraph(step, warmup=1)
    for strategy in (right, wrong):
        strategy.prepare(6)
    check = check_size(step, right, 6, reference=False)
    assert check.same_as_eager and check.error is None
    with pytest.raises(MeasurementFailed, match="size 6: error"):
        check_size(step, wrong, 6, reference=False)


def test_a_graph_that_ignores_its_inputs_is_found() -> None:
    step = decode_step()
    strategy = StaleGraph(step, warmup=1)
    strategy.prepare(6)
    with pytest.raises(MeasurementFailed, match="size 6: error"):
        check_size(step, strategy, 6)


def test_padding_that_reaches_real_rows_is_found() -> None:
    right = decode_step()
    step = LeakyStep(right.decoder, DenseAttention, rows=8, capacity=16, lm_head_in_graph=True)
    strategy = EagerStrategy(step)
    strategy.prepare(6)
    with pytest.raises(MeasurementFailed, match="size 6: real rows change"):
        check_size(step, strategy, 6)


def test_the_reference_is_the_decoder_on_a_whole_sequence() -> None:
    """One decode step over a cache equals the last token of one causal pass; the cache is filled token by token."""
    step = decode_step(rows=1)
    tokens = torch.tensor([5, 9, 200, 31, 77])
    eager = EagerStrategy(step)
    eager.prepare(1)
    with torch.inference_mode():
        for position, token in enumerate(tokens):
            batch = step.batch(1, context_tokens=position + 1)
            batch.tokens.copy_(token)
            step.load(batch, 1)
            eager.run(1)
        cache = step.attention.cache
        last = torch.tensor([len(tokens) - 1])
        high = reference_logits(step.decoder, tokens[-1:], last, lambda layer: cache.of_rows(layer, 1), torch.float64)
        whole = step.decoder.logits(step.decoder(tokens, torch.arange(len(tokens)), CausalAttention()))[-1:]
    torch.testing.assert_close(step.logits(1), whole, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(high.float(), whole, atol=1e-6, rtol=1e-5)
