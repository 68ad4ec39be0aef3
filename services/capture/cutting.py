"""A decoder's forward as pieces, cut before and after every attention call."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor

from services.capture.strategies.base import Piece, Tensors
from workloads.models.attention import Attention
from workloads.models.decoder import Decoder, DecoderLayer


def cut_at_attention(
    decoder: Decoder, tokens: Tensor, positions: Tensor, attention: Attention, leave: Callable[[Tensor], None]
) -> list[Piece]:
    """Pieces of one forward over static tensors; each takes what the one before gave, attention is eager.

    Args:
        tokens, positions: int64 [T], read by the first piece.
        leave: what the last piece does with the normalised hidden states [T, hidden].
    """
    layers = [cast(DecoderLayer, layer) for layer in decoder.layers]

    def first() -> Tensors:
        x, cos, sin = decoder.embed(tokens, positions)
        return x, cos, sin, *layers[0].before(x, cos, sin)

    def attend(layer: int) -> Callable[..., Tensors]:
        return lambda x, cos, sin, q, k, v: (x, cos, sin, attention.run(layer, q, k, v))

    def between(layer: int) -> Callable[..., Tensors]:
        def run(x: Tensor, cos: Tensor, sin: Tensor, attended: Tensor) -> Tensors:
            x = layers[layer].after(x, attended)
            return x, cos, sin, *layers[layer + 1].before(x, cos, sin)

        return run

    def last(x: Tensor, cos: Tensor, sin: Tensor, attended: Tensor) -> Tensors:
        leave(decoder.normalise(layers[-1].after(x, attended)))
        return ()

    pieces = [Piece(first, eager=False)]
    for layer in range(len(layers)):
        pieces.append(Piece(attend(layer), eager=True))
        pieces.append(Piece(between(layer) if layer + 1 < len(layers) else last, eager=False))
    return pieces
