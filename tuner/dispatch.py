"""DispatchTable: which bucket a step of a given size runs in, as the emulated engine decides it.

Built by an engine, read by scorecard, solver, closed loop and worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workloads.arrays import I64, Bool, frozen


@dataclass(frozen=True, slots=True)
class FamilyDispatch:
    """The rule of one family.

    Attributes:
        buckets: int64 [K], captured sizes, increasing; may be empty.
        exact_only: only captured sizes replay (padding disabled).
        max_padding_factor: a bucket larger than this times the step is not used (SGLang prefill: 2).
        otherwise: family whose graphs are tried before eager (vLLM: FULL, then PIECEWISE).
    """

    buckets: I64
    exact_only: bool = False
    max_padding_factor: float | None = None
    otherwise: str | None = None

    def __post_init__(self) -> None:
        frozen(self.buckets)

    def bucket_of(self, sizes: I64) -> I64:
        """The bucket of every step size, 0 where this family has none: int64, same shape as `sizes`."""
        if len(self.buckets) == 0:
            return np.zeros(len(sizes), dtype=np.int64)
        at = np.searchsorted(self.buckets, sizes)
        bucket = np.where(at < len(self.buckets), self.buckets[np.minimum(at, len(self.buckets) - 1)], 0)
        if self.exact_only:
            bucket = np.where(bucket == sizes, bucket, 0)
        if self.max_padding_factor is not None:
            bucket = np.where(bucket > self.max_padding_factor * sizes, 0, bucket)
        return bucket.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Outcome for an array of step sizes of one family, all of its shape.

    Attributes:
        bucket: int64, 0 = fallback.
        elsewhere: bool, the bucket belongs to the `otherwise` family.
    """

    bucket: I64
    elsewhere: Bool

    @property
    def fallback(self) -> Bool:
        fallback: Bool = self.bucket == 0
        return fallback


@dataclass(frozen=True, slots=True)
class DispatchTable:
    """family -> size -> bucket or fallback."""

    families: Mapping[str, FamilyDispatch]

    def dispatch(self, family: str, sizes: I64) -> Dispatched:
        """Where steps of these sizes run. A family without a rule always falls back."""
        rule = self.families.get(family)
        if rule is None:
            return Dispatched(np.zeros(len(sizes), dtype=np.int64), np.zeros(len(sizes), dtype=np.bool_))
        bucket = rule.bucket_of(sizes)
        elsewhere = np.zeros(len(sizes), dtype=np.bool_)
        if rule.otherwise is not None and rule.otherwise in self.families:
            second = self.families[rule.otherwise].bucket_of(sizes)
            elsewhere = (bucket == 0) & (second > 0)
            bucket = np.where(elsewhere, second, bucket)
        return Dispatched(bucket, elsewhere)

    @classmethod
    def plain(cls, family: str, buckets: I64) -> DispatchTable:
        """The rule without an engine: smallest captured size that is large enough, else fallback."""
        return cls({family: FamilyDispatch(buckets)})
