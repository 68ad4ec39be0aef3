"""ProbePlan: what a measurement of few sizes aims at, and where it begins. `tuner.probing` thinks it through."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.errors import BadUsage

TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """What a job of few probes aims at.

    Attributes:
        candidates: sizes that may be probed, increasing; the last is the end of the curve.
        sizes, weights: steps that the list will serve; empty weighs every candidate alike.
        tolerance: share of the expected step within which the best list must be known.
        most_probes: sizes read at most, the first ones included.
        at_once: sizes read before the plan is thought over again.
    """

    candidates: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    tolerance: float = TOLERANCE
    most_probes: int = 96
    at_once: int = 6

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.weights) or any(weight <= 0 for weight in self.weights):
            raise BadUsage("every size of the workload needs a positive weight", field="weights")
        if self.sizes and self.sizes[-1] > self.candidates[-1]:
            raise BadUsage(
                f"the workload reaches {self.sizes[-1]}, the largest size to measure is {self.candidates[-1]}",
                field="sizes",
            )
        if not 0 < self.tolerance < 1:
            raise BadUsage(f"must be above 0 and below 1, not {self.tolerance:g}", field="tolerance")


def first_probes(largest: int) -> tuple[int, ...]:
    """A coarse grid to begin with: powers of two, and the middle between them from 16 on."""
    powers = [1 << k for k in range(largest.bit_length())]
    sizes = {*powers, *(3 * power // 2 for power in powers if power >= 16), largest}
    return tuple(sorted(size for size in sizes if size <= largest))
