"""DecodeStep: one decode step as an engine runs it, around whichever strategy executes its forward.

With several tokens a row it is the step that verifies drafts: q tokens of every request through the whole model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.kv_cache import CacheLayout
from services.capture.buffers import Padding, Slot, StaticBuffers, token_padding
from services.capture.cutting import cut_at_attention
from services.capture.strategies.base import Around, Piece
from workloads.models.config import ModelConfig
from workloads.models.decoder import Decoder


def slots(config: ModelConfig, tokens_per_row: int = 1) -> tuple[Slot, ...]:
    """The inputs of a step and what padding holds; a row has `tokens_per_row` new tokens."""

    def per_token(rows: int) -> tuple[int, ...]:
        return rows, tokens_per_row

    return (
        Slot("tokens", torch.int64, token_padding(config), per_token),
        Slot("positions", torch.int64, Padding.ZERO_TAIL, per_token),
        Slot("lengths", torch.int32, Padding.SENTINEL, sentinel=tokens_per_row),
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs of n real rows on the host (pinned for a GPU): tokens, positions int64 [n x q], lengths int32 [n]."""

    tokens: Tensor
    positions: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, tokens: Tensor, lengths: Tensor, *, pin: bool) -> Batch:
        """Rows whose q new tokens are the last of `lengths` tokens."""
        q = len(tokens) // len(lengths)
        positions = (lengths.long()[:, None] - q + torch.arange(q)).flatten()
        columns = tokens.long(), positions, lengths.int()
        return cls(*(column.pin_memory() if pin else column for column in columns))

    def named(self) -> dict[str, Tensor]:
        """Slot name -> values, a row each."""
        rows = len(self)
        return {
            "tokens": self.tokens.view(rows, -1),
            "positions": self.positions.view(rows, -1),
            "lengths": self.lengths,
        }


class DecodeStep:
    """Static buffers, attention metadata and outputs of one decoder; a `strategies.base.Program`.

    Args:
        rows: largest size.
        capacity: most tokens of a row.
        tokens: size of the KV cache where rows share it (see `KvCache`); None gives every row its capacity.
        lm_head_in_graph: the output head belongs to the program; otherwise it runs in `finish` on real rows.
        tokens_per_row: new tokens of every row: 1 for decode, the drafts and one more to verify them.
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
        tokens_per_row: int = 1,
    ) -> None:
        self.decoder, self.rows, self.capacity = decoder, rows, capacity
        self.lm_head_in_graph, self.tokens_per_row = lm_head_in_graph, tokens_per_row
        config, device, dtype = decoder.config, decoder.device, decoder.dtype
        self.buffers = StaticBuffers(slots(config, tokens_per_row), rows, device)
        self.attention = backend(config, CacheLayout(rows, capacity, dtype, device, tokens, tokens_per_row))
        self.attention.cache.randomise(seed)
        width = config.vocab_size if lm_head_in_graph else config.hidden_size
        self._output = torch.zeros((rows * tokens_per_row, width), dtype=dtype, device=device)  # shared by every size

    @property
    def output_bytes(self) -> int:
        """Memory of the one output buffer that every size writes to."""
        return self._output.numel() * self._output.element_size()

    def batch(self, rows: int, *, context_tokens: int, seed: int = 0) -> Batch:
        """Random tokens for rows that all have `context_tokens` tokens, the new one included."""
        return self.batch_of(torch.full((rows,), context_tokens), seed=seed)

    def batch_of(self, lengths: Tensor, *, seed: int = 0) -> Batch:
        """Random tokens for rows of these lengths, the new tokens included; shorter rows are of new tokens alone."""
        generator = torch.Generator().manual_seed(seed)
        count = len(lengths) * self.tokens_per_row
        tokens = torch.randint(self.decoder.config.vocab_size, (count,), generator=generator)
        pin = self.decoder.device.type == "cuda"
        return Batch.of(tokens, lengths.clamp(min=self.tokens_per_row), pin=pin)

    def full(self, size: int, *, seed: int = 0) -> Batch:
        """A batch that fills a size with the shortest rows there are: the step costs its bucket and nothing else."""
        return self.batch(size, context_tokens=1, seed=seed)

    @torch.inference_mode()
    def load(self, batch: Batch, size: int) -> None:
        """Copy a batch in, pad it to `size`, plan attention: everything before the graph."""
        self.buffers.load(batch.named(), size=size)
        positions, lengths = self.buffers.view("positions", size), self.buffers.view("lengths", size)
        self.attention.plan(positions.view(-1), lengths, batch.lengths)

    def arguments(self, size: int) -> tuple[Tensor, ...]:
        """Every tensor of the program that changes between steps; fixed addresses."""
        tokens, positions = (self.buffers.view(name, size).view(-1) for name in ("tokens", "positions"))
        lengths = self.buffers.view("lengths", size)
        return tokens, positions, self._output[: len(tokens)], *self.attention.arguments(size, lengths)

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
        attention = self.attention.over(*rest)
        return cut_at_attention(self.decoder, tokens, positions, attention, partial(self._leave, output=output))

    def _leave(self, hidden: Tensor, output: Tensor) -> None:
        if self.lm_head_in_graph:
            self.decoder.logits(hidden, out=output)
        else:
            output.copy_(hidden)

    @torch.inference_mode()
    def logits(self, rows: int) -> Tensor:
        """Logits of the real rows of the step that ran last: [rows x q, vocab]."""
        output = self._output[: rows * self.tokens_per_row]
        return output if self.lm_head_in_graph else self.decoder.logits(output)

    @torch.inference_mode()
    def finish(self, rows: int) -> Tensor:
        """Slice out the real rows and sample greedily: int64 [rows x q]; everything after the graph."""
        return self.logits(rows).argmax(dim=-1)
