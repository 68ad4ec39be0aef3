"""Measured beside predicted: what a replay showed and what the profile had said of the same lists and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from services.capture.replay_job import CaseReading, ReplayList, ReplayReport, ReplayWindow
from tuner.cost_profile import FamilyCost
from tuner.step_cost import capture_cost


@dataclass(frozen=True, slots=True)
class Compared:
    """One list on one window. `error` is predicted / measured - 1."""

    list_name: str
    window: str
    predicted_ms: float
    measured_ms: float

    @property
    def error(self) -> float:
        return self.predicted_ms / self.measured_ms - 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Shares: the median and the 95th percentile of absolute errors, and the mean error with its sign."""

    pairs: int
    median: float
    p95: float
    bias: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Spread:
        absolute = np.abs(errors)
        return cls(len(errors), float(np.median(absolute)), float(np.percentile(absolute, 95)), float(np.mean(errors)))


def compare(
    lists: Sequence[ReplayList],
    windows: Sequence[ReplayWindow],
    cases: Sequence[CaseReading],
    measured_ms: Mapping[tuple[str, str], float],
    cost: FamilyCost,
) -> list[Compared]:
    """Every measured pair beside its prediction, on the KV tokens that were really attended to. Pairs that need a
    fallback time which the profile does not know are left out.

    Args:
        measured_ms: (list, window) -> mean step.
    """
    kv_tokens: dict[tuple[int, int], list[int]] = {}
    for case in cases:
        kv_tokens.setdefault((case.rows, case.bucket), []).append(case.kv_tokens)
    found = []
    steps_of = {window.name: window.steps for window in windows}
    dispatch_of = {item.name: item.dispatch for item in lists}
    for (list_name, window), mean_ms in measured_ms.items():
        steps = steps_of[window]
        rows = np.array([step.rows for step in steps], dtype=np.int64)
        bucket = dispatch_of[list_name].bucket_of(rows)
        kv = np.array(
            [
                min(kv_tokens[step.rows, int(at)], key=lambda tokens: abs(tokens - step.kv_tokens))
                for step, at in zip(steps, bucket, strict=True)
            ]
        )
        ms = cost.in_bucket_ms(bucket, rows, kv)
        weight = np.array([step.weight for step in steps])
        predicted_ms = float(weight @ ms / weight.sum())
        if np.isfinite(predicted_ms):
            found.append(Compared(list_name, window, predicted_ms, mean_ms))
    return found


def compare_capture(sizes: Sequence[int], report: ReplayReport, cost: FamilyCost) -> Mapping[str, float | None]:
    """Capture seconds and MiB of a list that was captured alone, beside what the profile says of it."""
    seconds, mib = capture_cost(cost, tuple(sorted(sizes)))
    return {
        "predicted_s": seconds,
        "measured_s": report.capture_s,
        "error_s": None if seconds is None else seconds / report.capture_s - 1,
        "predicted_mib": mib,
        "measured_mib": report.memory_mib,
        "error_mib": None if mib is None or report.memory_mib <= 0 else mib / report.memory_mib - 1,
    }
