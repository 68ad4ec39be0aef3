"""What a step waits for its longest row, where attention does not split rows over the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from workloads.arrays import F64, I64
from workloads.errors import BadInput


@dataclass(frozen=True, slots=True)
class LongestRow:
    """Milliseconds that follow the mean context of a step's rows, and not how many tokens they have together.

    A kernel with more rows than the GPU has places reads every row as one stream, and the step is over when the longest
    is. With fewer, rows are split over the free places, and wait in proportion.

    Attributes:
        ms_per_ktoken: the wait of a step whose rows are not split, per thousand tokens of mean context.
        unsplit_rows: buckets of at least so many rows are not split.
        at_tokens: the mean context whose wait is part of the bucket's measured time.
    """

    ms_per_ktoken: float = 0.0
    unsplit_rows: int = 1
    at_tokens: float = 0.0

    def __post_init__(self) -> None:
        if not self.ms_per_ktoken >= 0 or not self.at_tokens >= 0 or self.unsplit_rows < 1:
            raise BadInput("wait and context must not be negative, and rows at least 1", field="longest_row")

    @classmethod
    def of(cls, ms_per_ktoken: float, unsplit_rows: int, at_tokens: float) -> Self:
        """A wait of nothing is none, whatever else is said of it."""
        return cls(ms_per_ktoken, unsplit_rows, at_tokens) if ms_per_ktoken > 0 else cls()

    def ms(self, buckets: I64, context_tokens: F64 | float) -> F64:
        """The whole wait: float64, same shape."""
        split: F64 = np.minimum(1.0, np.asarray(buckets, dtype=np.float64) / self.unsplit_rows)
        return self.ms_per_ktoken * 1e-3 * context_tokens * split

    def beyond_ms(self, buckets: I64, context_tokens: F64) -> F64:
        """The wait beyond the part in the bucket's time, below 0 for shorter contexts: float64, same shape."""
        return self.ms(buckets, context_tokens - self.at_tokens)


NO_WAIT = LongestRow()
"""A step takes no longer for one long row than for the same tokens in several."""
