"""Prefill times by token count and prefix, eager: what the simulation needs beside decode."""

from __future__ import annotations

from collections.abc import Generator

import torch
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.dense import DenseAttention
from services.capture.attention.kv_cache import CacheLayout, KvCache
from services.capture.attention.prefill import PrefillAttention
from services.capture.failures import TORCH_ERRORS, failure_of
from services.capture.readings import PrefillReading, SizeFailure, Timing
from services.capture.timing import make_clock, summary, synchronize
from workloads.models.decoder import Decoder

LONG_PREFILL_MS = 200.0  # a prefill that long is read once: it varies by less than a hundredth, and costs a whole start


class PrefillBench:
    """Times prefills of one prompt; one KV cache of the longest prompt serves all.

    Args:
        backend: decode backend of the session; prefill uses the flash operator unless decode is dense.
    """

    def __init__(self, decoder: Decoder, backend: type[DecodeAttention], *, longest: int) -> None:
        self.decoder = decoder
        self.flash = backend is not DenseAttention
        self.cache = KvCache(decoder.config, CacheLayout(1, longest, decoder.dtype, decoder.device))
        self.cache.randomise(0)
        self.clock = make_clock(decoder.device)

    @torch.inference_mode()
    def prefill(self, tokens: Tensor, prefix_tokens: int) -> Tensor:
        """Process the tokens of one prompt behind `prefix_tokens` cached ones: the next token, int64 [1]."""
        count = len(tokens)
        attention = PrefillAttention(self.cache, tokens=count, prefix_tokens=prefix_tokens, flash=self.flash)
        positions = torch.arange(prefix_tokens, prefix_tokens + count, device=self.decoder.device)
        hidden = self.decoder(tokens.to(self.decoder.device, non_blocking=True), positions, attention)
        return self.decoder.logits(hidden[-1:]).argmax(dim=-1)

    def time(
        self, counts: tuple[int, ...], prefix_tokens: int, *, repeats: int, seed: int
    ) -> Generator[int, None, tuple[list[PrefillReading], list[SizeFailure]]]:
        """Time every token count at one prefix; yields the count that comes next."""
        generator = torch.Generator().manual_seed(seed)
        prompt = torch.randint(self.decoder.config.vocab_size, (max(counts),), generator=generator)
        readings, failures = [], []
        for count in counts:
            tokens = prompt[:count].pin_memory() if self.decoder.device.type == "cuda" else prompt[:count]
            try:
                timing = yield from self._time_one(tokens, prefix_tokens, repeats)
            except TORCH_ERRORS as error:
                failures.append(failure_of(count, error))
                continue
            readings.append(PrefillReading(count, prefix_tokens, timing.step_ms, timing.spread_ms))
        return readings, failures

    def _time_one(self, tokens: Tensor, prefix_tokens: int, repeats: int) -> Generator[int, None, Timing]:
        self._warm(tokens, prefix_tokens)
        read_ms: list[float] = []
        while len(read_ms) < repeats and (not read_ms or read_ms[0] < LONG_PREFILL_MS):
            yield len(tokens)
            read_ms.append(self._once(tokens, prefix_tokens))
        return summary([(ms, ms) for ms in read_ms])

    @torch.inference_mode()
    def _warm(self, tokens: Tensor, prefix_tokens: int) -> None:
        """One block of the decoder instead of all: they have the same shapes, and a shape's first run loads kernels."""
        count = len(tokens)
        attention = PrefillAttention(self.cache, tokens=count, prefix_tokens=prefix_tokens, flash=self.flash)
        positions = torch.arange(prefix_tokens, prefix_tokens + count, device=self.decoder.device)
        x, cos, sin = self.decoder.embed(tokens.to(self.decoder.device), positions)
        x = self.decoder.layers[0](x, cos, sin, attention)
        self.decoder.logits(self.decoder.normalise(x)[-1:])

    def _once(self, tokens: Tensor, prefix_tokens: int) -> float:
        synchronize(self.decoder.device)
        for mark in (0, 1):
            self.clock.mark(mark)
        self.prefill(tokens, prefix_tokens)
        for mark in (2, 3):
            self.clock.mark(mark)
        return self.clock.read()[0]
