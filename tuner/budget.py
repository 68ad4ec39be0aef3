"""Budget: the constraints a user puts on a capture list."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workloads.errors import BadUsage

DEFAULT_REGRET = 0.10


@dataclass(frozen=True, slots=True)
class Budget:
    """Hard constraints.

    Attributes:
        regret: for every step size the scheduler can reach, the bucket's time is at most (1 + regret) x the best
            time that any measured, allowed size could give it. `inf` lifts the constraint.
        max_length: most sizes in the list.
        max_memory_mib: most graph memory, pool included.
        max_capture_s: most capture time, fixed part included.
        max_tail_share: most of the steps that may be larger than the last size, and so run without a graph.
    """

    regret: float = DEFAULT_REGRET
    max_length: int | None = None
    max_memory_mib: float | None = None
    max_capture_s: float | None = None
    max_tail_share: float = 1.0

    def __post_init__(self) -> None:
        if math.isnan(self.regret) or self.regret < 0:
            raise BadUsage("must be 0 or more (or inf)", field="regret")
        if self.max_length is not None and self.max_length < 1:
            raise BadUsage("must be at least 1", field="max_length")
        if not 0 <= self.max_tail_share <= 1:
            raise BadUsage("must be between 0 and 1", field="max_tail_share")
        for name in ("max_memory_mib", "max_capture_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise BadUsage("must be above 0", field=name)
