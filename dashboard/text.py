"""Figures as people read them: three significant digits at most where that is enough, and always a unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

UNKNOWN = "unknown"
NBSP = "\u00a0"
"""Between a figure and its unit: a line must not break there."""


def digits(value: float) -> str:
    """Three significant digits without an exponent; whole numbers above 100 keep all of theirs."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1 or value == 0:
        return f"{value:.2f}"
    return f"{value:.3g}" if size >= 0.001 else f"{value:.1g}"


def count(value: float | None, noun: str = "") -> str:
    """`1,234 requests`; the noun is given in the plural and loses its s for one."""
    if value is None:
        return UNKNOWN
    name = noun[:-1] if noun.endswith("s") and round(value) == 1 else noun
    return f"{value:,.0f} {name}".strip()


def ms(value: float | None) -> str:
    return UNKNOWN if value is None else f"{digits(value)}{NBSP}ms"


def share(value: float | None) -> str:
    """A share as per cent; a value that would round to nothing, or to everything, says so."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.0005:
        return f"under 0.1{NBSP}%"
    if 0.9995 < value < 1:
        return f"over 99.9{NBSP}%"
    return f"{value * 100:,.1f}".removesuffix(".0") + f"{NBSP}%"


def is_noise(value: float | None, before: float | None, share: float | None) -> bool:
    """Whether a relative change is within the noise band; False where a figure or the band is unknown."""
    if share is None or value is None or not before:
        return False
    return abs(value / before - 1.0) <= share


def change(new: float | None, old: float | None) -> str | None:
    """`-4.2 %` from old to new; None where either is unknown."""
    if new is None or not old:
        return None
    percent = (new / old - 1) * 100
    return "no change" if abs(percent) < 0.05 else f"{percent:+.1f}{NBSP}%"


def seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value * 1000:.0f}{NBSP}ms" if 0 < value < 0.1 else f"{digits(value)}{NBSP}s"


def mib(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{digits(value / 1024)}{NBSP}GiB" if abs(value) >= 1024 else f"{digits(value)}{NBSP}MiB"


def duration(value: float | None) -> str:
    """A length of time in its two largest units, such as `2 h 5 min`."""
    if value is None:
        return UNKNOWN
    whole = round(value)
    if whole < 60:
        return seconds(value)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, left_s = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (left_s, "s")]
    first = next(i for i, (amount, _) in enumerate(parts) if amount)
    return " ".join(f"{amount}{NBSP}{unit}" for amount, unit in parts[first : first + 2] if amount)


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago, in one unit; naive times are UTC."""
    if moment is None:
        return UNKNOWN
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    passed = ((now or datetime.now(UTC)) - aware).total_seconds()
    for unit_s, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if passed >= unit_s:
            number = int(passed // unit_s)
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def sizes(values: Iterable[int]) -> str:
    """`1, 2, 4, 8`"""
    return ", ".join(str(value) for value in values)


def short_sizes(values: Sequence[int], most: int = 40) -> str:
    """The sizes, in the middle of a long list an ellipsis."""
    if len(values) <= most:
        return sizes(values)
    half = most // 2
    return f"{sizes(values[:half])}, … , {sizes(values[-half:])}"


def joined(parts: Sequence[str]) -> str:
    """`a, b and c`"""
    return ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else "".join(parts)
