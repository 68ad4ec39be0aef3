"""A replay: capture lists on real steps. What is asked and what comes back, as plain values that cross processes.

Several lists share one capture of all their sizes when only time is asked; a list captured alone, largest size first
as engines do, also tells its seconds and memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from services.capture.readings import DeviceSample, Phase, SizeFailure
from services.capture.spec import MeasureSpec
from tuner.dispatch import FamilyDispatch
from workloads.arrays import I64
from workloads.errors import BadInput
from workloads.traces.records import StepTrace

LENGTH_SPREAD = (0.5, 1.5)
"""Rows of one step differ in length: a trace tells their sum, these shares of the mean spread it."""


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One recorded step, standing for `weight` steps; `kv_tokens` is what all its rows attend to together."""

    rows: int
    kv_tokens: int
    weight: float = 1.0

    def lengths(self) -> I64:
        """Tokens of every row, the new one included: int64 [rows], the same at every call."""
        shares = np.random.default_rng(self.rows * 1_000_003 + self.kv_tokens).uniform(*LENGTH_SPREAD, self.rows)
        lengths: I64 = np.maximum(1, np.rint(shares / shares.sum() * self.kv_tokens)).astype(np.int64)
        return lengths


@dataclass(frozen=True, slots=True)
class ReplayList:
    """A list under a name, as its engine dispatches steps to it."""

    name: str
    dispatch: FamilyDispatch

    def bucket(self, rows: int) -> int:
        """Bucket of a step, 0 for the fallback."""
        return int(self.dispatch.bucket_of(np.array([rows], dtype=np.int64))[0])


@dataclass(frozen=True, slots=True)
class ReplayWindow:
    """Steps under a name."""

    name: str
    steps: tuple[ReplayStep, ...]


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """What to replay. `spec` names model, device, strategy and protocol; its sizes are ignored.

    Attributes:
        repeats: rounds over all distinct (bucket, step) cases, each in a new random order.
    """

    spec: MeasureSpec
    lists: tuple[ReplayList, ...]
    windows: tuple[ReplayWindow, ...]
    repeats: int = 3

    def __post_init__(self) -> None:
        if not self.sizes:
            raise BadInput("a replay needs at least one captured size", field="sizes")
        if not self.steps:
            raise BadInput("a replay needs at least one step", field="steps")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Every size of any list, increasing."""
        return tuple(sorted({int(size) for item in self.lists for size in item.dispatch.buckets}))

    @property
    def steps(self) -> tuple[ReplayStep, ...]:
        """Distinct steps of all windows; weights of their own do not count here."""
        found = {(step.rows, step.kv_tokens): step for window in self.windows for step in window.steps}
        return tuple(found.values())

    def cases(self) -> tuple[tuple[int, ReplayStep], ...]:
        """(bucket or 0, step) of everything that any list does."""
        pairs = {
            (item.bucket(step.rows), step.rows, step.kv_tokens): (item.bucket(step.rows), step)
            for item in self.lists
            for step in self.steps
        }
        return tuple(pairs.values())


@dataclass(frozen=True, slots=True)
class CaseReading:
    """A step in a bucket (0: eager, at its own size).

    Attributes:
        kv_tokens: what really was attended to.
        step_ms, run_ms: the whole step, and the run alone.
    """

    bucket: int
    rows: int
    kv_tokens: int
    step_ms: float
    run_ms: float
    spread_ms: float


@dataclass(frozen=True, slots=True)
class PairReading:
    """One list on one window, weighted by steps; None where a size of the list could not be measured."""

    list_name: str
    window: str
    steps: float
    exact_hit_rate: float
    hit_rate: float
    padding_waste: float
    mean_step_ms: float | None
    tpot_ms: float | None


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What one fresh process measured.

    Attributes:
        size_s, size_mib: capture seconds and driver memory of every size, in capture order.
        capture_s, memory_mib: of the whole capture.
        phase_s, device_log: as in a `StartReport`.
        clipped_share: share of distinct steps whose context was cut to what the KV cache could hold.
    """

    pairs: tuple[PairReading, ...]
    cases: tuple[CaseReading, ...]
    size_s: Mapping[int, float]
    size_mib: Mapping[int, float]
    capture_s: float
    memory_mib: float
    clipped_share: float
    failures: tuple[SizeFailure, ...]
    device: Mapping[str, Any]
    model: Mapping[str, Any]
    software: Mapping[str, Any]
    replay_s: float
    seconds: float
    phase_s: Mapping[Phase, float] = field(default_factory=dict)
    device_log: tuple[DeviceSample, ...] = ()

    def measured_ms(self) -> dict[tuple[str, str], float]:
        """(list, window) -> mean step, of the pairs that could be measured."""
        known = ((pair.list_name, pair.window, pair.mean_step_ms) for pair in self.pairs)
        return {(name, window): ms for name, window, ms in known if ms is not None}


def pair_of(item: ReplayList, window: ReplayWindow, step_ms: Mapping[tuple[int, int, int], float]) -> PairReading:
    """Weigh measured cases into what a list does to a window.

    Args:
        step_ms: (bucket, rows, kv_tokens as asked) -> measured step.
    """
    rows = np.array([step.rows for step in window.steps], dtype=np.int64)
    weight = np.array([step.weight for step in window.steps])
    bucket = item.dispatch.bucket_of(rows)
    runs = np.where(bucket > 0, bucket, rows)
    total = float(weight.sum())
    ms = np.array(
        [step_ms.get((int(b), s.rows, s.kv_tokens), np.nan) for b, s in zip(bucket, window.steps, strict=True)]
    )
    known = not np.isnan(ms).any()
    return PairReading(
        list_name=item.name,
        window=window.name,
        steps=total,
        exact_hit_rate=float(weight[bucket == rows].sum()) / total,
        hit_rate=float(weight[bucket > 0].sum()) / total,
        padding_waste=float(weight @ (runs - rows) / (weight @ runs)),
        mean_step_ms=float(weight @ ms) / total if known else None,
        tpot_ms=float((weight * rows) @ ms / (weight @ rows)) if known else None,
    )


def sample_window(trace: StepTrace, family: str, *, name: str, limit: int, tokens_per_row: int = 1) -> ReplayWindow:
    """At most `limit` steps that stand for all steps of a family: one from the middle of every equal share of the
    steps, ordered by size and context. A shorter sequence is taken whole.

    Args:
        tokens_per_row: what one request adds to a step's size (1, or tokens a request when drafts are verified).

    Raises:
        BadInput: the trace has no such step.
    """
    if family not in trace.families:
        raise BadInput(f"no steps of family '{family}' here, only {', '.join(trace.families)}")
    chosen = trace.family_index == trace.families.index(family)
    size, steps, kv = trace.size[chosen], trace.steps[chosen].astype(np.float64), trace.kv_tokens[chosen]
    if len(size) == 0:
        raise BadInput(f"no steps of family '{family}' here")
    rows = np.maximum(1, size // tokens_per_row)
    tokens = np.where(np.isfinite(kv), np.maximum(kv, rows), rows).astype(np.int64)
    if len(rows) > limit:
        order = np.lexsort((tokens, rows))
        ends = np.cumsum(steps[order])
        middles = (np.arange(limit) + 0.5) / limit * ends[-1]
        picked = order[np.searchsorted(ends, middles)]
        rows, tokens, steps = rows[picked], tokens[picked], np.full(limit, ends[-1] / limit)
    return ReplayWindow(
        name, tuple(ReplayStep(int(r), int(t), float(w)) for r, t, w in zip(rows, tokens, steps, strict=True))
    )


def plain_list(name: str, sizes: Sequence[int]) -> ReplayList:
    """A list without an engine: the smallest size that is large enough, else fallback."""
    return ReplayList(name, FamilyDispatch(np.array(sorted(sizes), dtype=np.int64)))
