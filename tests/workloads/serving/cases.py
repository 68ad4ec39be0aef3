"""Random small simulations with every limit in play, and rows unfolded into single steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.workloads.serving.reference import Reference, Request
from workloads.serving.limits import PolicyName, SchedulerLimits
from workloads.serving.step_time import StepTime
from workloads.traces.records import RequestTrace, StepTrace


@dataclass(frozen=True)
class Case:
    trace: RequestTrace
    policy: PolicyName
    limits: SchedulerLimits
    time: StepTime
    load: float
    engines: int

    def references(self) -> list[Reference]:
        """One reference per engine, each with its own requests."""
        out = []
        for engine in range(self.engines):
            requests = [
                Request(
                    float(self.trace.arrival_s[i] * 1000.0 / self.load), int(self.trace.input_tokens[i]), int(out_i)
                )
                for i, out_i in enumerate(self.trace.output_tokens)
                if i % self.engines == engine
            ]
            out.append(Reference(self.policy, self.limits, self.time, requests))
        return out


def random_case(policy: PolicyName, seed: int) -> Case:
    """A case whose every time is a multiple of 2^-20 ms when `seed` is even, so that sums are exact and arrivals can
    tie with step boundaries; arbitrary floats when it is odd."""
    rng = np.random.default_rng([seed, len(policy)])
    exact = seed % 2 == 0
    count = int(rng.integers(1, 25))
    gap_s = rng.choice([0.002, 0.02, 0.2, 2.0])
    arrival_s = np.sort(rng.uniform(0, gap_s * count, count))
    if exact:
        arrival_s = np.floor(arrival_s * 32) / 32  # multiples of 31.25 ms: many ties, exact in ms
    arrival_s = arrival_s - arrival_s[0]
    longest = int(rng.choice([4, 30, 150]))
    trace = RequestTrace(
        arrival_s, rng.integers(1, longest + 1, count), rng.integers(1, int(rng.choice([2, 8, 60])) + 1, count)
    )
    cap = int(rng.integers(1, 9))
    limits = SchedulerLimits(
        max_running_requests=cap,
        token_budget=int(rng.integers(cap, rng.choice([cap + 3, 200]))),
        chunked_prefill_tokens=None if rng.random() < 0.3 else int(rng.integers(1, 100)),
        kv_tokens=None if rng.random() < 0.3 else int(rng.integers(2, 400)),
    )
    return Case(
        trace,
        policy,
        limits,
        random_step_time(rng, exact, cap),
        float(rng.choice([0.5, 1.0, 4.0])),
        int(rng.integers(1, 3)),
    )


def random_step_time(rng: np.random.Generator, exact: bool, cap: int) -> StepTime:
    """Non-monotone decode times, any attention and row terms, a prefill curve that may fall."""
    decode_ms = rng.uniform(0.5, 40.0, cap + 1 + int(rng.integers(0, 3)))
    attention, row, prefix = rng.choice([0.0, 1.0]) * rng.uniform(0, 0.2), rng.uniform(0, 1.0), rng.uniform(0, 0.01)
    points = int(rng.integers(1, 5))
    tokens = np.sort(rng.choice(np.arange(1, 200), points, replace=False)).astype(np.float64)
    prefill_ms = rng.uniform(1.0, 60.0, points)
    if exact:
        # Powers of two apart, so that slopes are dyadic too.
        decode_ms = np.round(decode_ms * 4) / 4 + 0.25
        attention, row, prefix = (
            np.round(attention * 1024) / 1024,
            np.round(row * 64) / 64,
            np.round(prefix * 4096) / 4096,
        )
        tokens = np.array([8.0, 16.0, 32.0, 64.0])[:points]
        prefill_ms = np.round(prefill_ms * 4) / 4
    return StepTime(decode_ms, float(attention), float(row), tokens, prefill_ms, float(prefix))


@dataclass(frozen=True)
class Unfolded:
    """Every single step of a StepTrace."""

    size: np.ndarray
    family: list[str]
    start_ms: np.ndarray
    step_ms: np.ndarray
    kv_tokens: np.ndarray


def unfold(steps: StepTrace, time: StepTime) -> Unfolded:
    """Undo the run lengths: within a row of n requests KV grows by n and the step by a x n, evenly around the mean."""
    which = np.repeat(np.arange(len(steps)), steps.steps)
    first = np.concatenate([[0], np.cumsum(steps.steps)[:-1]])
    inside = np.arange(len(which)) - first[which]
    from_mean = inside - (steps.steps[which] - 1) / 2
    growth = steps.size[which] * time.attention_ms_per_token
    before = inside * steps.step_ms[which] + growth * (
        inside * (inside - 1) / 2 - inside * (steps.steps[which] - 1) / 2
    )
    return Unfolded(
        steps.size[which],
        [steps.families[i] for i in steps.family_index[which]],
        steps.start_s[which] * 1e3 + before,
        steps.step_ms[which] + growth * from_mean,
        steps.kv_tokens[which] + steps.size[which] * from_mean,
    )
