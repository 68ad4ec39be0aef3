"""Breakable: one pass over the forward is recorded, stopping at named points that stay eager, as in SGLang.

Points are `attention.<layer>`; all of them by default. A layer whose point is not named is recorded whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from services.capture.strategies.base import Program
from services.capture.strategies.recorders import Recorder
from services.capture.strategies.segmented import Call, SegmentedStrategy
from workloads.models.attention import Attention


class BreakableStrategy(SegmentedStrategy):
    """Args:
    breaks_at: whether to stop at a point.
    """

    name: ClassVar[str] = "breakable"

    def __init__(
        self,
        program: Program,
        *,
        device: torch.device,
        warmup: int,
        breaks_at: Callable[[str], bool] = lambda point: point.startswith("attention."),
    ) -> None:
        super().__init__(program, device=device, warmup=warmup)
        self.breaks_at = breaks_at

    def record(self, size: int, recorder: Recorder) -> list[Call]:
        calls: list[Call] = []
        recorder.begin()
        self.program.compute(
            *self.program.arguments(size), around=lambda inner: _Breaks(inner, recorder, calls, self.breaks_at)
        )
        calls.append(recorder.end())
        return calls


class _Breaks:
    """Attention that ends the stretch, leaves a call for later, and begins the next stretch.

    It does not attend while recording: what is recorded has not run, and keys of it must not reach the cache.
    """

    def __init__(
        self, inner: Attention, recorder: Recorder, calls: list[Call], breaks_at: Callable[[str], bool]
    ) -> None:
        self.inner, self.recorder, self.calls, self.breaks_at = inner, recorder, calls, breaks_at

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if not self.breaks_at(f"attention.{layer}"):
            return self.inner.run(layer, query, key, value)
        self.calls.append(self.recorder.end())
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        now = self.recorder.now

        def attend() -> None:
            output.copy_(self.inner.run(layer, now(query), now(key), now(value)))

        self.calls.append(attend)
        self.recorder.begin()
        return output
