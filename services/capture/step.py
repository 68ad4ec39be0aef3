"""Step: what a session measures, whatever its sizes count."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from services.capture.strategies.base import Program
from workloads.models.decoder import Decoder


class Step(Program, Protocol):
    """A program with what an engine does before and after it: inputs in, attention planned, outputs out."""

    decoder: Decoder

    @property
    def output_bytes(self) -> int:
        """Memory of the one output buffer that every size writes to."""
        ...

    def full(self, size: int, *, seed: int = 0) -> Any:
        """A batch that fills a size and costs no more than the size does: `len` of it are real rows."""
        ...

    def load(self, batch: Any, size: int) -> None:
        """Copy a batch of this step in, pad it to `size`, plan attention."""
        ...

    def finish(self, rows: int) -> Tensor:
        """Slice out the real rows and sample."""
        ...


class ContextStep(Step, Protocol):
    """A step whose rows have a context that can be long."""

    def batch_of(self, lengths: Tensor, *, seed: int = 0) -> Any:
        """A batch with random tokens of rows of these lengths."""
        ...
