"""Piecewise: the forward is cut at attention beforehand, and every piece is warmed up and captured by itself, as
vLLM's piecewise backend does. Attention runs eagerly between the pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from services.capture.strategies.base import Piece, Tensors
from services.capture.strategies.recorders import Recorder
from services.capture.strategies.segmented import Call, SegmentedStrategy


class PiecewiseStrategy(SegmentedStrategy):
    name: ClassVar[str] = "piecewise"

    def record(self, size: int, recorder: Recorder) -> list[Call]:
        calls: list[Call] = []
        values: Tensors = ()
        for piece in self.program.pieces(*self.program.arguments(size)):
            call, values = (_attend if piece.eager else self._capture)(piece, values, recorder)
            call()  # the next piece warms up on what this one gives
            calls.append(call)
        return calls

    def _capture(self, piece: Piece, values: Tensors, recorder: Recorder) -> tuple[Call, Tensors]:
        for _ in range(self.warmup):
            piece.run(*values)
        recorder.begin()
        result = piece.run(*values)
        return recorder.end(), result


def _attend(piece: Piece, values: Sequence[Tensor], recorder: Recorder) -> tuple[Call, Tensors]:
    """An eager call whose last result is copied to a place of its own, where the next piece will always find it."""
    *passed, attended = piece.run(*(recorder.now(value) for value in values))
    place = attended.clone()

    def call() -> None:
        place.copy_(piece.run(*(recorder.now(value) for value in values))[-1])

    return call, (*values[: len(passed)], place)
