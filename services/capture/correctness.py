"""Correct before fast: a size counts only if its real rows are right whatever padding holds.

Two requirements (both on the program's own static buffers, at the padded size):
- real rows are bitwise the same under changed padding;
- their error against a higher-precision reference is no larger than eager's own, within rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from services.capture.decode_step import Batch, DecodeStep
from services.capture.readings import Check
from services.capture.strategies.base import Strategy
from workloads.errors import MeasurementFailed
from workloads.models.reference import reference_logits

SAMPLED_ROWS = 2  # a wrong kernel is wrong in any row, and rows that are mixed up in two; experts make a row dear
ERROR_FACTOR = 1.5  # two roundings of the same sum may differ; a wrong kernel is off by orders of magnitude


@torch.inference_mode()
def check_size(step: DecodeStep, strategy: Strategy, size: int, *, seed: int = 0, reference: bool = True) -> Check:
    """Check one prepared size, with about two thirds of its rows real and every context length possible.

    Args:
        reference: whether a size that is bitwise eager's is held against the reference too: its error is eager's own
            then, whatever that is. A size that differs from eager always is.

    Raises:
        MeasurementFailed: the size is wrong; the message names it and says how.
    """
    rows = max(1, size * 2 // 3)
    real = _batch(step, rows, seed + size)
    step.load(real, size)  # over whatever the size before has left in the padding
    step.compute(*step.arguments(size))
    eager = step.logits(rows).clone()
    first = _under_padding(step, strategy, real, size, seed=seed + 1)
    same = torch.equal(first, eager)  # under two paddings: then it is the same under changed padding too
    if not same:
        require_same(first, _under_padding(step, strategy, real, size, seed=seed + 2), size)
    elif not reference:
        return Check(rows=rows, same_as_eager=True, error=None, eager_error=None)
    exact = _reference(step, real, min(rows, SAMPLED_ROWS))
    error, eager_error = (float((x[: len(exact)] - exact).abs().max()) for x in (first, eager))
    floor = torch.finfo(step.decoder.dtype).eps * float(exact.abs().max())
    if not error <= ERROR_FACTOR * eager_error + floor:
        raise MeasurementFailed(
            f"size {size}: error {error:.3g} against the reference, eager's is {eager_error:.3g}", field=f"size {size}"
        )
    return Check(rows=rows, same_as_eager=same, error=error, eager_error=eager_error)


def require_same(first: Tensor, second: Tensor, size: int) -> None:
    """Real rows under two paddings must be bitwise the same.

    Raises:
        MeasurementFailed: they are not; names the size and by how much.
    """
    if not torch.equal(first, second):
        worst = (first.float() - second.float()).abs().max()
        raise MeasurementFailed(f"size {size}: real rows change by {worst:.3g} with the padding", field=f"size {size}")


def _batch(step: DecodeStep, rows: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    q = step.tokens_per_row
    tokens = torch.randint(step.decoder.config.vocab_size, (rows * q,), generator=generator)
    lengths = torch.randint(q, step.capacity + 1, (rows,), generator=generator)
    return Batch.of(tokens, lengths, pin=step.decoder.device.type == "cuda")


def _under_padding(step: DecodeStep, strategy: Strategy, real: Batch, size: int, *, seed: int) -> Tensor:
    """Logits of the real rows after a full step has left other tokens, lengths and cache entries in the padding."""
    rows = len(real)
    if rows < size:
        other = _batch(step, size - rows, seed)
        tokens = torch.cat((real.tokens, other.tokens))
        lengths = torch.cat((real.lengths, other.lengths))
        step.load(Batch.of(tokens, lengths, pin=real.tokens.is_pinned()), size)
        strategy.run(size)
    step.load(real, size)
    strategy.run(size)
    return step.logits(rows).clone()


def _reference(step: DecodeStep, real: Batch, rows: int) -> Tensor:
    device = step.decoder.device
    dtype = torch.float32 if device.type == "cuda" else torch.float64
    cache, q = step.attention.cache, step.tokens_per_row
    tokens, positions = real.tokens[: rows * q].to(device), real.positions[: rows * q].to(device)

    def past(layer: int) -> tuple[Tensor, Tensor]:
        """Of every new token: the step has left the keys of its row's earlier new tokens in the cache."""
        keys, values = cache.of_rows(layer, rows)
        return keys.repeat_interleave(q, 0), values.repeat_interleave(q, 0)

    return reference_logits(step.decoder, tokens, positions, past, dtype)
