"""What unit an arrival column is in: from its name or its values where they leave no doubt, else a question."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from workloads.traces.clock import is_epoch
from workloads.traces.header_names import unit_in_name
from workloads.traces.mapping import TimeUnit
from workloads.traces.source import Source
from workloads.traces.table import Table
from workloads.traces.values import SECONDS, iso_format


@dataclass(frozen=True, slots=True)
class UnitReading:
    """What a unit would make of the sampled arrivals.

    Attributes:
        rate_per_s: requests per second over the sample; None where all arrive at once.
    """

    unit: TimeUnit
    span_s: float
    rate_per_s: float | None

    def __str__(self) -> str:
        return "all at once" if self.rate_per_s is None else f"{self.rate_per_s:.3g} requests/s"


def settled_unit(source: Source, table: Table, arrival: str, time_zone: str | None) -> tuple[TimeUnit, tuple[str, ...]]:
    """The time unit that name or values leave no doubt about, and a note where it came from values.

    Raises:
        BadInput: seconds and milliseconds are both possible; the sentence shows both readings.
    """
    values = table.values(arrival)
    if not values:
        raise source.bad("the file has a header and no rows" if not table.sample else f"'{arrival}' is always empty")
    first = values[0]
    if isinstance(first, datetime.datetime) or (isinstance(first, str) and iso_format(first.strip())):
        zoned = isinstance(first, str) and (iso_format(first.strip()) or "").endswith(("z", "Z"))
        return "iso", () if zoned else (f"times carry no zone and were taken as {time_zone or 'UTC'}",)
    named = unit_in_name(arrival)
    if named is not None:
        return named, ()
    numbers = _numbers(source, values, arrival)
    for unit, scale in SECONDS.items():
        if is_epoch(min(numbers) * scale) and is_epoch(max(numbers) * scale):
            return unit, (f"'{arrival}' was read as Unix time in {unit}, the only unit that gives a date of our time",)
    span = max(numbers) - min(numbers)
    seconds, milliseconds = readings(numbers)[:2]
    raise source.bad(
        f"seconds or milliseconds? The first {len(numbers)} arrivals span {span:g}: in seconds that is "
        f"{seconds}, in milliseconds {milliseconds}; give the time unit (s, ms, us or ns)",
        field=arrival,
    )


def readings(numbers: list[float]) -> tuple[UnitReading, ...]:
    """The sampled arrivals in every unit: seconds, milliseconds, microseconds, nanoseconds."""
    span = max(numbers) - min(numbers)
    return tuple(
        UnitReading(unit, span * scale, len(numbers) / (span * scale) if span > 0 else None)
        for unit, scale in SECONDS.items()
    )


def _numbers(source: Source, values: list[object], arrival: str) -> list[float]:
    numbers: list[float] = []
    for value in values:
        try:
            numbers.append(float(str(value)))
        except ValueError as error:
            line = values.index(value) + 2
            raise source.bad(
                f"'{str(value)[:60]}' is neither a number nor an ISO 8601 time", line=line, field=arrival
            ) from (error)
    return numbers
