"""How the engine itself ran the served requests: the steps that its log tells of them, where it does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from services.capture.probes.records import Census
from workloads.errors import BadInput
from workloads.traces.read import read
from workloads.traces.records import StepTrace

_FORMATS = {"vllm": "vllm-cudagraph-metrics"}
"""Logs that count every step with its bucket. SGLang logs one decode step in forty, without the bucket."""


def census_of(log: Path, from_byte: int, engine: str) -> Census | None:
    """The steps logged after `from_byte`; None where this engine or version logs none."""
    if engine not in _FORMATS:
        return None
    with log.open("rb") as whole, tempfile.NamedTemporaryFile(suffix=".log") as part:
        whole.seek(from_byte)
        part.write(whole.read())
        part.flush()
        try:
            steps = read(Path(part.name), format=_FORMATS[engine]).traffic
        except BadInput:  # no table in it
            return None
    return _summed(steps) if isinstance(steps, StepTrace) else None


def _summed(trace: StepTrace) -> Census:
    steps = trace.steps.astype(np.float64)
    eager = trace.fallback == 1
    runs = np.where(trace.padded_size > 0, trace.padded_size, trace.size)
    exact, total = ~eager & (runs == trace.size), float(steps.sum())
    return Census(
        steps=int(total),
        exact=float(steps[exact].sum()) / total,
        padded=float(steps[~eager & ~exact].sum()) / total,
        fallback=float(steps[eager].sum()) / total,
        padding_waste=float(steps @ (runs - trace.size) / (steps @ runs)),
    )
