"""DecodeStep: one decode step as an engine runs it, around whichever strategy executes its forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.buffers import Padding, Slot, StaticBuffers
from services.capture.strategies.base import Around, Piece, Tensors
from workloads.models.config import ModelConfig
from workloads.models.decoder import Decoder, DecoderLayer


def slots(config: ModelConfig) -> tuple[Slot, ...]:
    """The inputs of a step and what padding holds.

    A padded row's token may be anything: it writes into its own slot and no real row reads it. Not so with experts:
    they share matrix products between rows, whose rounding depends on who else was sent there.
    """
    token_padding = Padding.KEEP_TAIL if config.experts is None else Padding.ZERO_TAIL
    return (
        Slot("tokens", torch.int64, token_padding),
        Slot("positions", torch.int64, Padding.ZERO_TAIL),
        Slot("lengths", torch.int32, Padding.SENTINEL, sentinel=1),
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs of n real rows on the host (pinned for a GPU): tokens, positions int64 [n], lengths int32 [n]."""

    tokens: Tensor
    positions: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def of(cls, tokens: Tensor, lengths: Tensor, *, pin: bool) -> Batch:
        """Rows whose new token is the last of `lengths` tokens."""
        columns = tokens.long(), lengths.long() - 1, lengths.int()
        return cls(*(column.pin_memory() if pin else column for column in columns))

    def named(self) -> dict[str, Tensor]:
        return {"tokens": self.tokens, "positions": self.positions, "lengths": self.lengths}


class DecodeStep:
    """Static buffers, attention metadata and outputs of one decoder; a `strategies.base.Program`.

    Args:
        rows: largest size.
        capacity: most tokens of a row.
        tokens: size of the KV cache where rows share it (see `KvCache`); None gives every row its capacity.
        lm_head_in_graph: the output head belongs to the program; otherwise it runs in `finish` on real rows.
    """

    def __init__(
        self,
        decoder: Decoder,
        backend: type[DecodeAttention],
        *,
        rows: int,
        capacity: int,
        lm_head_in_graph: bool,
        seed: int = 0,
        tokens: int | None = None,
    ) -> None:
        self.decoder, self.rows, self.capacity = decoder, rows, capacity
        self.lm_head_in_graph = lm_head_in_graph
        config, device, dtype = decoder.config, decoder.device, decoder.dtype
        self.buffers = StaticBuffers(slots(config), rows, device)
        self.attention = backend(config, rows=rows, capacity=capacity, dtype=dtype, device=device, tokens=tokens)
        self.attention.cache.randomise(seed)
        width = config.vocab_size if lm_head_in_graph else config.hidden_size
        self._output = torch.zeros((rows, width), dtype=dtype, device=device)  # shared by every size

    @property
    def output_bytes(self) -> int:
        """Memory of the one output buffer that every size writes to."""
        return self._output.numel() * self._output.element_size()

    def batch(self, rows: int, *, context_tokens: int, seed: int = 0) -> Batch:
        """Random tokens for rows that all have `context_tokens` tokens, the new one included."""
        return self.batch_of(torch.full((rows,), context_tokens), seed=seed)

    def batch_of(self, lengths: Tensor, *, seed: int = 0) -> Batch:
        """Random tokens for rows of these lengths, the new token included."""
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(self.decoder.config.vocab_size, (len(lengths),), generator=generator)
        return Batch.of(tokens, lengths, pin=self.decoder.device.type == "cuda")

    @torch.inference_mode()
    def load(self, batch: Batch, size: int) -> None:
        """Copy a batch in, pad it to `size`, plan attention: everything before the graph."""
        self.buffers.load(batch.named(), size=size)
        positions, lengths = self.buffers.view("positions", size), self.buffers.view("lengths", size)
        self.attention.plan(positions, lengths, batch.lengths)

    def arguments(self, size: int) -> tuple[Tensor, ...]:
        """Every tensor of the program that changes between steps; fixed addresses."""
        tokens, positions, lengths = (self.buffers.view(name, size) for name in ("tokens", "positions", "lengths"))
        return tokens, positions, self._output[:size], *self.attention.arguments(size, lengths)

    @torch.inference_mode()
    def compute(self, *arguments: Tensor, around: Around | None = None) -> None:
        """The forward of one size over `arguments(size)`: what a strategy runs or records.

        Args:
            around: puts something between the decoder and its attention, as strategies that stop there do.
        """
        self.plain(*arguments, around=around)

    def plain(self, *arguments: Tensor, around: Around | None = None) -> None:
        """`compute` without inference mode, which compilers do not take."""
        tokens, positions, output, *rest = arguments
        attention = self.attention.over(*rest)
        hidden = self.decoder(tokens, positions, around(attention) if around else attention)
        self._leave(hidden, output)

    def pieces(self, *arguments: Tensor) -> list[Piece]:
        """The same forward cut at every attention call; each piece takes what the one before gave."""
        tokens, positions, output, *rest = arguments
        attention, layers = self.attention.over(*rest), [cast(DecoderLayer, layer) for layer in self.decoder.layers]

        def first() -> Tensors:
            x, cos, sin = self.decoder.embed(tokens, positions)
            return x, cos, sin, *layers[0].before(x, cos, sin)

        def attend(layer: int) -> Callable[..., Tensors]:
            return lambda x, cos, sin, q, k, v: (x, cos, sin, attention.run(layer, q, k, v))

        def between(layer: int) -> Callable[..., Tensors]:
            def run(x: Tensor, cos: Tensor, sin: Tensor, attended: Tensor) -> Tensors:
                x = layers[layer].after(x, attended)
                return x, cos, sin, *layers[layer + 1].before(x, cos, sin)

            return run

        def last(x: Tensor, cos: Tensor, sin: Tensor, attended: Tensor) -> Tensors:
            self._leave(self.decoder.normalise(layers[-1].after(x, attended)), output)
            return ()

        pieces = [Piece(first, eager=False)]
        for layer in range(len(layers)):
            pieces.append(Piece(attend(layer), eager=True))
            pieces.append(Piece(between(layer) if layer + 1 < len(layers) else last, eager=False))
        return pieces

    def _leave(self, hidden: Tensor, output: Tensor) -> None:
        if self.lm_head_in_graph:
            self.decoder.logits(hidden, out=output)
        else:
            output.copy_(hidden)

    @torch.inference_mode()
    def logits(self, rows: int) -> Tensor:
        """Logits of the real rows of the step that ran last: [rows, vocab]."""
        output = self._output[:rows]
        return output if self.lm_head_in_graph else self.decoder.logits(output)

    @torch.inference_mode()
    def finish(self, rows: int) -> Tensor:
        """Slice out the real rows and sample greedily: int64 [rows]; everything after the graph."""
        return self.logits(rows).argmax(dim=-1)
