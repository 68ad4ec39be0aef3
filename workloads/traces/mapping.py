"""ColumnMapping: which columns of a request table mean what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from workloads.errors import BadUsage

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
    """

    arrival: str | None = None
    input_tokens: str | None = None
    output_tokens: str | None = None
    time_unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        if self.time_unit is not None and self.time_unit not in get_args(TimeUnit):
            raise BadUsage(
                f"'{self.time_unit}' is not a time unit; use one of {', '.join(get_args(TimeUnit))}", field="time_unit"
            )
