"""EngineWorkload: recorded traffic as one experiment uses it, split into what lists are chosen and compared on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.capture.probes.records import PlannedWorkload
from services.capture.probes.serving import Schedule, schedule
from tuner.recommendation import ServingOptions
from workloads.errors import BadInput
from workloads.traces.records import RequestTrace, StepTrace, Traffic

CONTEXT_STEP_TOKENS = 64
"""Contexts are rounded to it: steps that differ by less are one."""


@dataclass(frozen=True, slots=True)
class EngineWorkload:
    """One of the workloads that a list is to serve."""

    plan: PlannedWorkload
    traffic: Traffic
    serving: ServingOptions

    @property
    def fit_part(self) -> Traffic:
        """What lists are chosen on."""
        return self.traffic if self.plan.fit_share == 1 else self.traffic.window(0, self._cut)

    @property
    def test_part(self) -> Traffic:
        """What lists are compared on: later traffic than any list was chosen on, where the traffic has an order."""
        return self.traffic if self.plan.fit_share == 1 else self.traffic.window(self._cut, len(self.traffic))

    @property
    def _cut(self) -> int:
        cut = int(len(self.traffic) * self.plan.fit_share)
        if not 0 < cut < len(self.traffic):
            raise BadInput(
                f"{self.plan.name}: {len(self.traffic)} rows are too few to choose a list on one part and compare on "
                "another"
            )
        return cut

    def schedule(self, serve_s: float, longest_tokens: int, stream: int) -> Schedule | None:
        """The requests of the first `serve_s` seconds of the test part; None where steps were recorded, or for 0 s.

        Raises:
            BadInput: fewer than two requests arrive in that time.
        """
        part = self.test_part
        if serve_s == 0 or not isinstance(part, RequestTrace):
            return None
        return schedule(part, load=self.plan.load, within_s=serve_s, longest_tokens=longest_tokens, stream=stream)


def typical_context(traffics: Sequence[Traffic], otherwise: int = 1024) -> int:
    """Mean tokens that one row of a decode step attends to, over the steps that each traffic makes; traffics alike."""
    known = [tokens for traffic in traffics if (tokens := _mean_context(traffic)) is not None]
    tokens = sum(known) / len(known) if known else otherwise
    return max(CONTEXT_STEP_TOKENS, round(tokens / CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS)


def _mean_context(traffic: Traffic) -> float | None:
    if isinstance(traffic, StepTrace):
        known = np.isfinite(traffic.kv_tokens)
        if not known.any():
            return None
        rows = traffic.size[known] * traffic.steps[known]
        return max(1.0, float((traffic.kv_tokens[known] * traffic.steps[known]).sum() / rows.sum()))
    outputs = traffic.output_tokens.astype(np.float64)
    return float(outputs @ (traffic.input_tokens + outputs / 2) / outputs.sum())
