"""ColumnMapping: which columns of a request table mean what, and what a person decides where a file leaves it open."""

from __future__ import annotations

import math
import zoneinfo
from dataclasses import dataclass
from typing import Literal, get_args

from workloads.errors import BadUsage
from workloads.traces.arrivals import ArrivalProcess

TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
"""What arrival values are: a number in that unit, or `iso` for ISO 8601 text."""


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Column names as the file spells them; None lets the reader find the column by its well-known names.

    Attributes:
        arrival: when a request arrived.
        input_tokens: prompt tokens.
        output_tokens: generated tokens.
        time_unit: unit of `arrival`; None takes it from the values or the column's name where these leave no doubt.
        time_zone: zone of date-times that carry none, such as `Europe/Zurich`; None takes them as UTC.
        time_scale: every time is multiplied by it; 2 halves the rate.
        arrivals: an arrival process in place of recorded times.
        spread_ticks_seed: spread arrivals evenly at random inside the ticks of a coarse clock, with this seed.
    """

    arrival: str | None = None
    input_tokens: str | None = None
    output_tokens: str | None = None
    time_unit: TimeUnit | None = None
    time_zone: str | None = None
    time_scale: float = 1.0
    arrivals: ArrivalProcess | None = None
    spread_ticks_seed: int | None = None

    def __post_init__(self) -> None:
        if self.time_unit is not None and self.time_unit not in get_args(TimeUnit):
            raise BadUsage(
                f"'{self.time_unit}' is not a time unit; use one of {', '.join(get_args(TimeUnit))}", field="time_unit"
            )
        if not (math.isfinite(self.time_scale) and self.time_scale > 0):
            raise BadUsage(f"the time scale must be above 0, not {self.time_scale:g}", field="time_scale")
        if self.time_zone is not None:
            try:
                zoneinfo.ZoneInfo(self.time_zone)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                raise BadUsage(f"'{self.time_zone[:60]}' is not a time zone", field="time_zone") from None

    @property
    def names_columns(self) -> bool:
        """Whether it says what columns mean; if not, the file is still recognised by its content."""
        return any((self.arrival, self.input_tokens, self.output_tokens, self.time_unit))
