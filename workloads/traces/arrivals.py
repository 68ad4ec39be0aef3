"""ArrivalProcess: arrival times for request sets that have lengths and no times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from workloads.arrays import F64
from workloads.errors import BadUsage

ArrivalKind = Literal["poisson", "gamma", "uniform", "recorded"]
"""`recorded` keeps the process that the source describes (ServeGen clients) and only sets its rate."""


@dataclass(frozen=True, slots=True)
class ArrivalProcess:
    """Independent gaps of mean 1 / rate.

    Attributes:
        kind: gaps are exponential (`poisson`), gamma with coefficient of variation `cv`, or uniform on 0..2 / rate.
        rate_per_s: requests per second that one engine gets.
        cv: coefficient of variation of gamma gaps; above 1 is burstier than Poisson.
        seed: the same seed gives the same times.

    Raises:
        BadUsage: an unknown kind, or a rate or cv that is not above 0.
    """

    kind: ArrivalKind
    rate_per_s: float
    cv: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(ArrivalKind):
            raise BadUsage(
                f"'{self.kind}' is not an arrival process; use one of {', '.join(get_args(ArrivalKind))}",
                field="arrivals",
            )
        for name, value in (("rate", self.rate_per_s), ("cv", self.cv)):
            if not (math.isfinite(value) and value > 0):
                raise BadUsage(f"the {name} must be above 0, not {value:g}", field="arrivals")
        if not 0 <= self.seed < 2**63:
            raise BadUsage(f"the seed must be 0 or above, not {self.seed}", field="arrivals")

    @classmethod
    def parse(cls, text: str) -> ArrivalProcess:
        """`KIND:RATE[,cv=X][,seed=N]`, such as `poisson:8` or `gamma:8,cv=2,seed=3`.

        Raises:
            BadUsage: not of that form.
        """
        head, *rest = (part.strip() for part in text.split(","))
        kind, _, rate = head.partition(":")
        options = dict(part.partition("=")[::2] for part in rest)
        if not set(options) <= {"cv", "seed"}:
            raise BadUsage(f"takes KIND:RATE[,cv=X][,seed=N], not '{text[:60]}'", field="arrivals")
        try:
            numbers = float(rate), float(options.get("cv", "1")), int(options.get("seed", "0"))
        except ValueError:
            raise BadUsage(f"takes KIND:RATE[,cv=X][,seed=N], not '{text[:60]}'", field="arrivals") from None
        return cls(kind, *numbers)  # type: ignore[arg-type]

    def sample_s(self, requests: int) -> F64:
        """Arrival times of that many requests, float64 [requests], from 0, non-decreasing."""
        random = np.random.default_rng(self.seed)
        match self.kind:
            case "gamma":
                shape = 1 / self.cv**2
                gaps = random.gamma(shape, 1 / (self.rate_per_s * shape), requests)
            case "uniform":
                gaps = random.uniform(0, 2 / self.rate_per_s, requests)
            case "poisson":
                gaps = random.exponential(1 / self.rate_per_s, requests)
            case "recorded":
                raise BadUsage("'recorded' needs a source that describes its arrivals; use poisson", field="arrivals")
        gaps[:1] = 0
        times: F64 = np.cumsum(gaps)
        return times

    def __str__(self) -> str:
        cv = f", coefficient of variation {self.cv:g}" if self.kind == "gamma" else ""
        return f"{self.kind} arrivals at {self.rate_per_s:g} requests/s{cv}, seed {self.seed}"
