"""Records of starts as the profile reads them: by purpose, what each captured, and how far their medians are apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from services.capture.probes.claims import Purpose
from services.capture.probes.records import StartRecord
from tuner.engines.base import Engine


def measured(starts: Sequence[StartRecord], purpose: Purpose) -> list[StartRecord]:
    """Starts of a purpose that did not fail."""
    return [start for start in starts if start.purpose == purpose and start.failure is None]


def captured_by(start: StartRecord, engine: Engine) -> tuple[int, ...]:
    """The list of decode steps as the log says it was captured; else as it was asked for."""
    name = engine.list_names[0]
    return tuple(start.effective.get(name) or (start.lists or {}).get(name, ()))


def median_ms(values: Sequence[float]) -> float:
    return round(statistics.median(values), 5)


def spread_ms(values: Sequence[float]) -> float:
    """Standard deviation of one value a start; nan for a single one."""
    return round(statistics.stdev(values), 5) if len(values) > 1 else float("nan")
