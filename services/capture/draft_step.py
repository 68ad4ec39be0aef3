"""DraftStep: the draft of a tree of tokens for every request, all its forwards in one program.

As SGLang's draft graph (`eagle_draft_cuda_graph_runner.py`, 0.5.23; vLLM's is the same with one branch): the pass over
the accepted tokens has left every request its k best next tokens, with their probabilities and the hidden state
behind them. The program puts `num_steps` - 1 draft forwards of k branches a request behind each other, with the choice
of the k best continuations by product of probabilities between them. As there, a branch keeps its own place in the KV
cache when it continues another one's token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.kv_cache import CacheLayout
from services.capture.buffers import Padding, Slot, StaticBuffers
from services.capture.spec import DraftShape
from services.capture.strategies.base import Around, Piece, Tensors
from workloads.models.config import ModelConfig
from workloads.models.decoder import Decoder
from workloads.models.draft import DraftHead
from workloads.models.weights import randomise


def slots(config: ModelConfig, topk: int, dtype: torch.dtype) -> tuple[Slot, ...]:
    """The inputs of a step and what padding holds. No row of the dense draft layer reads what another one leaves."""
    return (
        Slot("tokens", torch.int64, Padding.KEEP_TAIL, lambda rows: (rows, topk)),
        Slot("shares", torch.float32, Padding.KEEP_TAIL, lambda rows: (rows, topk)),
        Slot("hidden", dtype, Padding.KEEP_TAIL, lambda rows: (rows, config.hidden_size)),
        Slot("positions", torch.int64, Padding.ZERO_TAIL),
        Slot("lengths", torch.int32, Padding.SENTINEL, sentinel=1),
    )


@dataclass(frozen=True, slots=True)
class DraftBatch:
    """Inputs of n requests on the host (pinned for a GPU).

    Attributes:
        tokens, shares: int64 and float32 [n, k], the k best next tokens and their probabilities, best first.
        hidden: [n, hidden], the state that led to them.
        positions: int64 [n], where the candidates stand.
        lengths: int32 [n], tokens of the request with one of the candidates; that one is the last.
    """

    tokens: Tensor
    shares: Tensor
    hidden: Tensor
    positions: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    def named(self) -> dict[str, Tensor]:
        """Slot name -> values, a row each."""
        return {name: getattr(self, name) for name in ("tokens", "shares", "hidden", "positions", "lengths")}


class DraftStep:
    """Static buffers, attention metadata of every forward and the tree; a `strategies.base.Program`.

    Args:
        rows: largest size, in requests.
        capacity: most tokens of a branch, `num_steps` - 1 drafted ones included.
    """

    def __init__(
        self,
        decoder: Decoder,
        backend: type[DecodeAttention],
        shape: DraftShape,
        *,
        rows: int,
        capacity: int,
        seed: int = 0,
    ) -> None:
        self.decoder, self.shape, self.rows, self.capacity = decoder, shape, rows, capacity
        device, dtype, branches = decoder.device, decoder.dtype, rows * shape.topk
        self.head = DraftHead(decoder.config, device=device, dtype=dtype)
        randomise(self.head, seed)
        self.buffers = StaticBuffers(slots(decoder.config, shape.topk, dtype), rows, device)
        # Every forward sees one token more, and its kernels read a plan of their own; the cache is one. Branches keep
        # their whole capacity: in a pool that every plan lays out anew, a branch that reaches another page would move.
        config, layout = self.head.config, CacheLayout(branches, capacity, dtype, device)
        first = backend(config, layout)
        first.cache.randomise(seed)
        self.cache = first.cache
        self._attention = [first, *(backend(config, layout, first.cache) for _ in range(shape.forwards - 1))]
        self._positions = torch.zeros((shape.forwards, branches), dtype=torch.int64, device=device)
        self._lengths = torch.ones((shape.forwards, branches), dtype=torch.int32, device=device)
        tree = (shape.forwards, rows, shape.topk)
        self._tokens = torch.zeros(tree, dtype=torch.int64, device=device)
        self._parents = torch.zeros(tree, dtype=torch.int64, device=device)
        self._shares = torch.zeros(tree, dtype=torch.float32, device=device)

    @property
    def output_bytes(self) -> int:
        """Memory of the tree that every size writes to."""
        return sum(part.numel() * part.element_size() for part in (self._tokens, self._parents, self._shares))

    def batch_of(self, lengths: Tensor, *, seed: int = 0) -> DraftBatch:
        """Random candidates for requests of these lengths."""
        generator = torch.Generator().manual_seed(seed)
        shape, config = (len(lengths), self.shape.topk), self.decoder.config
        shares = torch.rand(shape, generator=generator).sort(dim=-1, descending=True).values
        hidden = torch.randn((len(lengths), config.hidden_size), generator=generator).to(self.decoder.dtype)
        tokens = torch.randint(config.vocab_size, shape, generator=generator)
        shares, lengths = shares / shares.sum(dim=-1, keepdim=True), lengths.int().clamp(min=1)
        columns = tokens, shares, hidden, lengths.long() - 1, lengths
        pin = self.decoder.device.type == "cuda"
        return DraftBatch(*(column.pin_memory() if pin else column for column in columns))

    def full(self, size: int, *, seed: int = 0) -> DraftBatch:
        """A batch that fills a size with the shortest requests there are."""
        return self.batch_of(torch.ones(size, dtype=torch.int32), seed=seed)

    @torch.inference_mode()
    def load(self, batch: DraftBatch, size: int) -> None:
        """Copy a batch in, pad it to `size`, plan the attention of every forward."""
        k = self.shape.topk
        self.buffers.load(batch.named(), size=size)
        positions, lengths = (self.buffers.view(name, size)[:, None] for name in ("positions", "lengths"))
        host_lengths = torch.ones(size, dtype=torch.int32)
        host_lengths[: len(batch)] = batch.lengths
        host_lengths = host_lengths.repeat_interleave(k)
        for ahead, attention in enumerate(self._attention):
            at, of = self._positions[ahead, : size * k], self._lengths[ahead, : size * k]
            torch.add(positions.expand(-1, k), ahead, out=at.view(size, k))
            torch.add(lengths.expand(-1, k), ahead, out=of.view(size, k))
            attention.plan(at, of, host_lengths + ahead)

    def arguments(self, size: int) -> tuple[Tensor, ...]:
        """Every tensor of the program that changes between steps; fixed addresses."""
        inputs = (self.buffers.view(name, size) for name in ("tokens", "shares", "hidden"))
        tree = (part[:, :size] for part in (self._tokens, self._parents, self._shares))
        branches = size * self.shape.topk
        planned = [
            tensor
            for ahead, attention in enumerate(self._attention)
            for tensor in (
                self._positions[ahead, :branches],
                *attention.arguments(branches, self._lengths[ahead, :branches]),
            )
        ]
        return *inputs, *tree, *planned

    @torch.inference_mode()
    def compute(self, *arguments: Tensor, around: Around | None = None) -> None:
        """All forwards of one size over `arguments(size)`; the tree is left in three of them.

        Args:
            around: puts something between the draft and its attention.
        """
        self.plain(*arguments, around=around)

    def plain(self, *arguments: Tensor, around: Around | None = None) -> None:
        """`compute` without inference mode, which compilers do not take."""
        tokens, shares, hidden, *rest = arguments
        tree, planned = rest[:3], rest[3:]
        k, each = self.shape.topk, len(planned) // self.shape.forwards
        states = hidden[:, None].expand(-1, k, -1).flatten(0, 1)
        for ahead, attention in enumerate(self._attention):
            positions, *inside = planned[ahead * each : (ahead + 1) * each]
            inner = attention.over(*inside)
            x, cos, sin = self.decoder.embed(tokens.flatten(), positions)
            states = self.head(x, states, cos, sin, around(inner) if around else inner)
            found, best = self.decoder.logits(states).softmax(dim=-1, dtype=torch.float32).topk(k, dim=-1)
            products = (shares.flatten()[:, None] * found).view(-1, k * k)
            shares, chosen = products.topk(k, dim=-1)
            parents = torch.div(chosen, k, rounding_mode="floor")
            tokens = best.view(-1, k * k).gather(1, chosen)
            states = states.view(len(parents), k, -1)
            states = states.gather(1, parents[..., None].expand(-1, -1, states.shape[-1])).flatten(0, 1)
            for target, made in zip(tree, (tokens, parents, shares), strict=True):
                target[ahead].copy_(made)

    def pieces(self, *arguments: Tensor) -> list[Piece]:
        """One piece: engines record drafts whole."""

        def whole() -> Tensors:
            self.compute(*arguments)
            return ()

        return [Piece(whole, eager=False)]

    def tree(self, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """(tokens, parents, shares) of the step that ran last, [forwards, rows, k] each: a branch's token, the branch
        of the level before that it continues, and the product of probabilities so far."""
        return self._tokens[:, :rows], self._parents[:, :rows], self._shares[:, :rows]

    def finish(self, rows: int) -> Tensor:
        """Slice out what the real requests drafted: int64 [forwards, rows, k]; everything after the graph."""
        return self._tokens[:, :rows].clone()
