"""The same requests at rising load under one list: where the running batch settles, and where it no longer does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine, Lists
from tuner.recommendation import ServingOptions
from tuner.traffic import observe
from workloads.errors import BadUsage
from workloads.serving.report import ServingReport
from workloads.traces.records import RequestTrace, Traffic

LEAST_SHARE, MOST_SHARE = 0.1, 1.25
"""Loads looked at, as shares of what one engine sustains under its default list."""
TIPPING_PRECISION = 0.01


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """Reports at every load of a grid.

    Attributes:
        loads: increasing, in units of the recorded rate.
        reports: the simulated service at each.
        tipping_load: the least load at which the queue grows without end, within 1 %; None where no load of the grid
            does that. `ServingReport.overloaded` defines it.
    """

    loads: tuple[float, ...]
    reports: tuple[ServingReport, ...]
    tipping_load: float | None


@dataclass(frozen=True, slots=True)
class LoadCase:
    """Requests, engine and profile; what varies is the list and the load."""

    trace: RequestTrace
    engine: Engine
    options: Any
    profile: CostProfile
    serving: ServingOptions

    @classmethod
    def of(
        cls, traffic: Traffic, engine: Engine, options: Any, profile: CostProfile, serving: ServingOptions
    ) -> LoadCase:
        """Raises:
        BadUsage: recorded steps, which cannot be replayed at another load.
        """
        if not isinstance(traffic, RequestTrace):
            raise BadUsage("recorded steps cannot be replayed at another load; this needs a trace of requests")
        return cls(traffic, engine, options, profile, serving)

    def at(self, lists: Lists, load: float) -> ServingReport:
        """The service under `lists` at `load` times the recorded rate."""
        serving = replace(self.serving, load=load)
        report = observe(self.trace, self.engine, self.options, self.profile, serving, lists).report
        assert report is not None  # requests are always simulated
        return report

    def grid(self, points: int) -> tuple[float, ...]:
        """`points` loads, evenly from 10 % to 125 % of what the engine sustains under its default list.

        Raises:
            BadUsage: fewer than two points.
        """
        if points < 2:
            raise BadUsage("must be at least 2", field="points")
        share = self.at(self.engine.default_lists(self.options), self.serving.load).load_share
        sustained = self.serving.load / share if share > 0 else self.serving.load
        step = (MOST_SHARE - LEAST_SHARE) / (points - 1)
        return tuple(sustained * (LEAST_SHARE + i * step) for i in range(points))

    def curve(self, lists: Lists, loads: tuple[float, ...]) -> LoadCurve:
        """Simulate every load, then narrow down where the list tips over."""
        reports = tuple(self.at(lists, load) for load in loads)
        over = [i for i, report in enumerate(reports) if report.overloaded]
        if not over:
            return LoadCurve(loads, reports, None)
        low, high = (loads[over[0] - 1] if over[0] else 0.0), loads[over[0]]
        while low > 0 and high / low > 1 + TIPPING_PRECISION:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if self.at(lists, middle).overloaded else (middle, high)
        return LoadCurve(loads, reports, high)
