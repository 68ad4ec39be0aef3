"""StepHistogram: how many steps of each size one graph family saw, and what kind of evidence that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from workloads.arrays import F64, I64, frozen
from workloads.errors import BadInput

Unit = Literal["requests", "tokens"]
Origin = Literal["census", "sample", "reconstruction", "simulation", "given"]
"""census: every step; sample: one step in so many; reconstruction: derived from telemetry; simulation: our
scheduler over recorded requests; given: a `size,count` file whose making we do not know."""


@dataclass(frozen=True, slots=True)
class StepHistogram:
    """Counts per step size.

    Attributes:
        family: graph family, e.g. `decode_full`.
        unit: what sizes count.
        sizes: int64 [N], strictly increasing, at least 1.
        steps: float64 [N], positive.
        kv_tokens: float64 [N], mean real KV tokens of one step of that size; nan where unknown.
    """

    family: str
    unit: Unit
    origin: Origin
    sizes: I64
    steps: F64
    kv_tokens: F64

    def __post_init__(self) -> None:
        if len(self.sizes) == 0 or not len(self.sizes) == len(self.steps) == len(self.kv_tokens):
            raise BadInput(f"histogram of {self.family}: columns must have one length of at least 1")
        if int(self.sizes[0]) < 1 or np.any(np.diff(self.sizes) <= 0):
            raise BadInput(f"histogram of {self.family}: sizes must be positive and increasing", field="size")
        if not np.all(np.isfinite(self.steps)) or np.any(self.steps <= 0):
            raise BadInput(f"histogram of {self.family}: counts must be positive", field="count")
        for column in (self.sizes, self.steps, self.kv_tokens):
            frozen(column)

    @property
    def total_steps(self) -> float:
        return float(self.steps.sum())

    @property
    def mean_size(self) -> float:
        return float(self.steps @ self.sizes) / self.total_steps

    @property
    def mean_context(self) -> float | None:
        """KV tokens of all steps by their sizes; None where those of some are unknown."""
        if not np.isfinite(self.kv_tokens).all():
            return None
        return float(self.steps @ self.kv_tokens) / float(self.steps @ self.sizes)

    @property
    def largest(self) -> int:
        return int(self.sizes[-1])

    def share_above(self, ceiling: int) -> float:
        """Share of steps whose size exceeds `ceiling`."""
        return float(self.steps[self.sizes > ceiling].sum()) / self.total_steps

    def counts(self) -> dict[int, float]:
        """{size: steps} as plain values."""
        return {int(size): float(steps) for size, steps in zip(self.sizes, self.steps, strict=True)}

    @classmethod
    def of_counts(
        cls, counts: dict[int, float], *, family: str = "decode_full", unit: Unit = "requests", origin: Origin = "given"
    ) -> StepHistogram:
        sizes = np.array(sorted(counts), dtype=np.int64)
        steps = np.array([counts[int(size)] for size in sizes], dtype=np.float64)
        return cls(family, unit, origin, sizes, steps, np.full(len(sizes), np.nan))
