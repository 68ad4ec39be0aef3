"""Correct before fast, for prefill: what a captured token count leaves in real rows, whatever padding holds.

- real rows are bitwise the same under changed padding;
- they differ from an eager pass at the same padded count by no more than eager passes differ among themselves, with
  padding and without: two roundings of the same sums. Eager itself is held against `transformers` by the model tests.
"""

from __future__ import annotations

import torch
from torch import Tensor

from services.capture.correctness import ERROR_FACTOR, require_same
from services.capture.prefill_step import PrefillStep, Prompt
from services.capture.readings import Check
from services.capture.strategies.base import Strategy
from workloads.errors import MeasurementFailed


@torch.inference_mode()
def check_prefill(step: PrefillStep, strategy: Strategy, size: int, *, seed: int = 0) -> Check:
    """Check one prepared token count, with about two thirds of its tokens real.

    Returns:
        A `Check` whose errors are of hidden states: against eager at the same padded count, and of eager passes among
        themselves.

    Raises:
        MeasurementFailed: the count is wrong; the message names it and says how.
    """
    tokens = max(1, size * 2 // 3)
    real = step.full(tokens, seed=seed + size)
    first = _under_padding(step, strategy, real, size, seed=seed + 1)
    second = _under_padding(step, strategy, real, size, seed=seed + 2)
    require_same(first, second, size)
    padded, exact = _eager(step, real, size), _eager(step, real, tokens)
    error, noise = _distance(first, padded), _distance(exact, padded)
    floor = torch.finfo(step.decoder.dtype).eps * float(padded.abs().max())
    if not error <= ERROR_FACTOR * noise + floor:
        raise MeasurementFailed(
            f"size {size}: {error:.3g} away from eager, whose own rounding is {noise:.3g}", field=f"size {size}"
        )
    return Check(rows=tokens, same_as_eager=torch.equal(first, padded), error=error, eager_error=noise)


def _under_padding(step: PrefillStep, strategy: Strategy, real: Prompt, size: int, *, seed: int) -> Tensor:
    """Hidden states of the real tokens after a full step has left other tokens and cache entries in the padding."""
    step.load(step.full(size, seed=seed), size)
    strategy.run(size)
    step.load(real, size)
    strategy.run(size)
    return step.hidden(len(real)).clone()


def _eager(step: PrefillStep, real: Prompt, size: int) -> Tensor:
    step.load(real, size)
    step.compute(*step.arguments(size))
    return step.hidden(len(real)).clone()


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one.float() - other.float()).abs().max())
