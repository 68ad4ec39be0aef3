"""PrefillStep: new tokens of one prompt, padded up to a captured token count, with attention left eager.

Engines that capture prefill capture everything between the attention calls by token count (vLLM's and SGLang's
piecewise graphs, SGLang's breakable ones); attention sees the real tokens alone, whose number changes every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.dense import DenseAttention
from services.capture.attention.kv_cache import CacheLayout, KvCache, rounded
from services.capture.attention.prefill import PrefillAttention
from services.capture.buffers import Padding, Slot, StaticBuffers, token_padding
from services.capture.cutting import cut_at_attention
from services.capture.strategies.base import Around, Piece
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig
from workloads.models.decoder import Decoder


def slots(config: ModelConfig) -> tuple[Slot, ...]:
    """The inputs of a step and what padding holds."""
    return Slot("tokens", torch.int64, token_padding(config)), Slot("positions", torch.int64, Padding.ZERO_TAIL)


@dataclass(frozen=True, slots=True)
class Prompt:
    """New tokens of a prompt on the host (pinned for a GPU): tokens, positions int64 [T]."""

    tokens: Tensor
    positions: Tensor

    def __len__(self) -> int:
        return len(self.tokens)


class PrefillStep:
    """Static buffers and output of one decoder; a `strategies.base.Program` whose sizes are token counts.

    Args:
        backend: decode backend of the session; prefill uses the flash operator unless decode is dense.
        rows: largest token count.
    """

    def __init__(self, decoder: Decoder, backend: type[DecodeAttention], *, rows: int, seed: int = 0) -> None:
        self.decoder, self.rows = decoder, rows
        device, dtype = decoder.device, decoder.dtype
        self.buffers = StaticBuffers(slots(decoder.config), rows, device)
        self.cache = KvCache(decoder.config, CacheLayout(1, rounded(rows), dtype, device))
        self.cache.randomise(seed)
        self._attention = _RealTokens(self.cache, flash=backend is not DenseAttention)
        self._hidden = torch.zeros((rows, decoder.config.hidden_size), dtype=dtype, device=device)

    @property
    def output_bytes(self) -> int:
        """Memory of the one output buffer that every size writes to."""
        return self._hidden.numel() * self._hidden.element_size()

    def full(self, size: int, *, seed: int = 0) -> Prompt:
        """A prompt of random tokens that fills a size."""
        generator = torch.Generator().manual_seed(seed)
        columns = torch.randint(self.decoder.config.vocab_size, (size,), generator=generator), torch.arange(size)
        pin = self.decoder.device.type == "cuda"
        return Prompt(*(column.pin_memory() if pin else column for column in columns))

    @torch.inference_mode()
    def load(self, prompt: Prompt, size: int) -> None:
        """Copy a prompt in, pad it to `size`, plan attention over its real tokens."""
        self.buffers.load({"tokens": prompt.tokens, "positions": prompt.positions}, size=size)
        self._attention.plan(len(prompt))

    def arguments(self, size: int) -> tuple[Tensor, ...]:
        """Every tensor of the program that changes between steps; fixed addresses."""
        return self.buffers.view("tokens", size), self.buffers.view("positions", size), self._hidden[:size]

    @torch.inference_mode()
    def compute(self, *arguments: Tensor, around: Around | None = None) -> None:
        """The forward of one size; hidden states are left in the last argument."""
        self.plain(*arguments, around=around)

    def plain(self, *arguments: Tensor, around: Around | None = None) -> None:
        """`compute` without inference mode, which compilers do not take."""
        tokens, positions, hidden = arguments
        attention: Attention = self._attention
        hidden.copy_(self.decoder(tokens, positions, around(attention) if around else attention))

    def pieces(self, *arguments: Tensor) -> list[Piece]:
        """The same forward cut at every attention call."""
        tokens, positions, hidden = arguments
        return cut_at_attention(self.decoder, tokens, positions, self._attention, partial(_leave, hidden))

    def hidden(self, tokens: int) -> Tensor:
        """Hidden states of the real tokens of the step that ran last: [tokens, hidden]."""
        return self._hidden[:tokens]

    @torch.inference_mode()
    def finish(self, tokens: int) -> Tensor:
        """The next token of the prompt, sampled greedily: int64 [1]; everything after the graph."""
        return self.decoder.logits(self._hidden[tokens - 1 : tokens]).argmax(dim=-1)


def _leave(output: Tensor, hidden: Tensor) -> None:
    output.copy_(hidden)


class _RealTokens:
    """Attention over the first n rows, n planned before the step; rows behind them come out as zeros."""

    def __init__(self, cache: KvCache, *, flash: bool) -> None:
        self.cache, self.flash = cache, flash
        self.plan(1)

    def plan(self, tokens: int) -> None:
        self.tokens = tokens
        self.inner = PrefillAttention(self.cache, tokens=tokens, prefix_tokens=0, flash=self.flash)

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if self.tokens > len(query):  # a size is being prepared, with a longer prompt still planned
            self.plan(len(query))
        n = self.tokens
        if n == len(query):
            return self.inner.run(layer, query, key, value)
        attended = torch.zeros_like(query)
        attended[:n] = self.inner.run(layer, query[:n], key[:n], value[:n])
        return attended
