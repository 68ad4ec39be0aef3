"""TimeLimit: no start begins that would not be over in time. A machine that is lent by the minute is given back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.capture.probes.claims import Purpose
from services.capture.probes.records import StartRecord


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """`limit_s` seconds from when it is made; None is no limit."""

    limit_s: float | None = None
    began_s: float = field(default_factory=time.monotonic)

    def admits(self, purpose: Purpose, starts: Sequence[StartRecord], least_s: float = 0.0) -> bool:
        """Whether a start would be over in time if it took as long as the longest of its kind so far.

        Of the first of a kind only other starts are known.

        Args:
            least_s: what it takes after its start-up in any case.
        """
        if self.limit_s is None:
            return True
        alike = [start.seconds or 0.0 for start in starts if start.purpose == purpose]
        longest_s = max(alike or [start.seconds or 0.0 for start in starts], default=0.0)
        startup_s = max((start.startup_s or 0.0 for start in starts), default=0.0)
        return time.monotonic() - self.began_s + max(longest_s, startup_s + least_s) <= self.limit_s
