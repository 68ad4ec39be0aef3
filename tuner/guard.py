"""Guard: a histogram spread over neighbouring sizes, for lists that must serve traffic which is not quite the recorded.

A list that is fitted to the last step of a recorded histogram leaves nothing for a batch that is a little larger
tomorrow. A guard moves each count over its neighbourhood (a normal curve whose width grows with the size) and adds a
share of a prior that knows every reachable size, small ones more. `tuner.choice` fits to it where the recorded steps
alone proved a poor guide to those that followed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from workloads.histogram import StepHistogram

LEAST_SHARE = 1e-12
"""Guarded weights below this share of all steps are dropped."""


@dataclass(frozen=True, slots=True)
class Guard:
    """How far counts are spread.

    Attributes:
        width_share: standard deviation of the neighbourhood, as a share of the size (at least one size).
        prior_share: share of all weight that goes to the prior, which gives size n the weight 1 / n.
    """

    width_share: float
    prior_share: float

    def spread(self, histogram: StepHistogram, reachable: int) -> StepHistogram:
        """The guarded histogram over 1..reachable; counts above stay where they are. Total steps are kept."""
        within = histogram.sizes <= reachable
        counts = np.zeros(max(reachable, histogram.largest) + 1)
        counts[histogram.sizes[~within]] = histogram.steps[~within]
        sizes = np.arange(1, reachable + 1, dtype=np.float64)
        for size, steps in zip(histogram.sizes[within], histogram.steps[within], strict=True):
            near = np.exp(-0.5 * ((sizes - size) / max(1.0, self.width_share * size)) ** 2)
            counts[1 : reachable + 1] += (1.0 - self.prior_share) * steps * near / near.sum()
        prior = 1.0 / sizes
        counts[1 : reachable + 1] += self.prior_share * histogram.steps[within].sum() * prior / prior.sum()
        kept = np.flatnonzero(counts > LEAST_SHARE * histogram.total_steps)
        return replace(histogram, sizes=kept.astype(np.int64), steps=counts[kept], kv_tokens=np.full(len(kept), np.nan))


GUARD = Guard(width_share=0.1, prior_share=0.3)
"""Picked on public traces; docs/results.md says how much hangs on the two numbers."""
