"""Correct before fast, for drafts: the tree of real requests, whatever padding holds."""

from __future__ import annotations

import torch
from torch import Tensor

from services.capture.correctness import ERROR_FACTOR, SAMPLED_ROWS, require_same
from services.capture.draft_step import DraftBatch, DraftStep
from services.capture.readings import Check
from services.capture.strategies.base import Strategy
from workloads.errors import MeasurementFailed
from workloads.models.reference import reference_draft


@torch.inference_mode()
def check_draft(step: DraftStep, strategy: Strategy, size: int, *, seed: int = 0) -> Check:
    """Check one prepared size, with about two thirds of its requests real and every context length possible.

    The tree must be bitwise the same under changed padding. Its probabilities are judged against the same tree in
    higher precision: which token comes next of two that are as likely is nobody's mistake.

    Raises:
        MeasurementFailed: the size is wrong; the message names it and says how.
    """
    rows = max(1, size * 2 // 3)
    real = _batch(step, rows, seed + size)
    first = _under_padding(step, strategy, real, size, seed=seed + 1)
    second = _under_padding(step, strategy, real, size, seed=seed + 2)
    for one, other in zip(first, second, strict=True):
        require_same(one, other, size)
    error = _error(step, real, first)
    step.load(real, size)
    step.compute(*step.arguments(size))
    eager = step.tree(rows)
    eager_error = _error(step, real, eager)
    if not error <= ERROR_FACTOR * eager_error + torch.finfo(step.decoder.dtype).eps:
        raise MeasurementFailed(
            f"size {size}: error {error:.3g} against the reference, eager's is {eager_error:.3g}", field=f"size {size}"
        )
    same = all(torch.equal(one, other) for one, other in zip(first, eager, strict=True))
    return Check(rows=rows, same_as_eager=same, error=error, eager_error=eager_error)


def _batch(step: DraftStep, rows: int, seed: int) -> DraftBatch:
    generator = torch.Generator().manual_seed(seed)
    longest = step.capacity - step.shape.forwards + 1
    return step.batch_of(torch.randint(1, longest + 1, (rows,), generator=generator), seed=seed)


def _under_padding(
    step: DraftStep, strategy: Strategy, real: DraftBatch, size: int, *, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The real requests' tree after a full step has left other candidates, states and cache entries in the padding.
    That step comes from other contexts alone: what real rows read of the cache stays."""
    rows = len(real)
    if rows < size:
        other = _batch(step, size - rows, seed)
        pairs = zip(real.named().values(), other.named().values(), strict=True)
        both = [torch.cat(pair) for pair in pairs]
        step.load(DraftBatch(*(column.pin_memory() if real.tokens.is_pinned() else column for column in both)), size)
        strategy.run(size)
    step.load(real, size)
    strategy.run(size)
    tokens, parents, shares = (part.clone() for part in step.tree(rows))
    return tokens, parents, shares


def _error(step: DraftStep, real: DraftBatch, tree: tuple[Tensor, Tensor, Tensor]) -> float:
    """Largest absolute error of a probability of the tree, over a few requests."""
    device = step.decoder.device
    sampled = min(len(real), SAMPLED_ROWS)
    tokens, parents, shares = (part[:, :sampled] for part in tree)
    reference = reference_draft(
        step.decoder,
        step.head,
        candidates=real.tokens[:sampled].to(device),
        shares=real.shares[:sampled].to(device),
        hidden=real.hidden[:sampled].to(device),
        positions=real.positions[:sampled].to(device),
        tokens=tokens,
        parents=parents,
        past=lambda layer: step.cache.of_rows(layer, sampled * step.shape.topk),
        dtype=torch.float32 if device.type == "cuda" else torch.float64,
    )
    return float((shares - reference).abs().max())
