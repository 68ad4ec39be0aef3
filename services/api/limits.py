"""Token buckets: how many requests one client may send."""

from __future__ import annotations

import time
from dataclasses import dataclass

BURST_S = 4.0
MOST_CLIENTS = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class RateLimiter:
    """`rate_per_s` requests of each client on average, and four seconds' worth of them at once."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._burst = max(1.0, rate_per_s * BURST_S)
        self._buckets: dict[str, _Bucket] = {}

    def wait_s(self, client: str, now_s: float | None = None) -> float:
        """Take one request off a client's account; above 0 it has to wait for so long, and nothing was taken."""
        now_s = time.monotonic() if now_s is None else now_s
        bucket = self._buckets.get(client)
        if bucket is None:
            self._forget(now_s)
            bucket = self._buckets[client] = _Bucket(self._burst, now_s)
        bucket.left = min(self._burst, bucket.left + (now_s - bucket.at_s) * self._rate_per_s)
        bucket.at_s = now_s
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._rate_per_s
        bucket.left -= 1.0
        return 0.0

    def _forget(self, now_s: float) -> None:
        """Clients that were silent long enough to have a full account need none."""
        if len(self._buckets) >= MOST_CLIENTS:
            self._buckets = {name: b for name, b in self._buckets.items() if now_s - b.at_s < BURST_S}
        if len(self._buckets) >= MOST_CLIENTS:
            self._buckets.clear()
