"""How fast the simulation is: generated requests through every policy, and what doubling their number costs.

    python -m benchmarks.simulate [--requests 1000000]

The traffic: Poisson arrivals at about 85 % of what one engine sustains, log-normal prompts (median 600 tokens) and
exponential outputs (mean 200 tokens), step times of the shape that an 8B model shows on one large GPU.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from workloads.serving.capacity import engine_ms_per_request
from workloads.serving.limits import PolicyName, SchedulerLimits
from workloads.serving.simulate import Simulation, simulate
from workloads.serving.step_time import StepTime
from workloads.traces.records import RequestTrace

POLICIES: tuple[PolicyName, ...] = ("decode", "sglang", "vllm")
LIMITS = SchedulerLimits(max_running_requests=512, token_budget=8192, chunked_prefill_tokens=8192, kv_tokens=1_000_000)


def step_time() -> StepTime:
    """A staircase between measured-like points, attention, rows and prefill."""
    buckets = np.array([1, 8, 64, 128, 256, 512])
    bucket_ms = np.array([6.2, 6.5, 7.5, 8.6, 11.3, 18.3])
    sizes = np.arange(513)
    decode_ms = bucket_ms[np.minimum(np.searchsorted(buckets, sizes), len(buckets) - 1)]
    prefill_tokens = np.array([128.0, 512.0, 2048.0, 8192.0, 16384.0])
    prefill_ms = np.array([6.4, 9.0, 31.0, 125.0, 260.0])
    return StepTime(decode_ms, 2.0e-5, 1.0e-3, prefill_tokens, prefill_ms, 2.0e-7)


def traffic(requests: int, policy: PolicyName, load_share: float = 0.85) -> RequestTrace:
    """Generated requests that ask for `load_share` of an engine under `policy`."""
    rng = np.random.default_rng(1)
    input_tokens = np.clip(rng.lognormal(np.log(600.0), 1.0, requests), 1, 30_000).astype(np.int64)
    output_tokens = 1 + rng.exponential(200.0, requests).astype(np.int64)
    need_ms = engine_ms_per_request(input_tokens, output_tokens, policy, LIMITS, step_time())
    arrival_s = np.cumsum(rng.exponential(need_ms * 1e-3 / load_share, requests))
    return RequestTrace(arrival_s - arrival_s[0], input_tokens, output_tokens)


def timed(trace: RequestTrace, policy: PolicyName) -> tuple[float, Simulation]:
    """Seconds of one simulation, the best of three, and the simulation."""
    best_s = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        simulation = simulate(trace, policy, LIMITS, step_time())
        best_s = min(best_s, time.perf_counter() - begin)
    return best_s, simulation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=1_000_000)
    requests = parser.parse_args().requests
    for policy in POLICIES:
        timed(traffic(100, policy), policy)  # compiles
        half_s, _ = timed(traffic(requests // 2, policy), policy)
        trace = traffic(requests, policy)
        full_s, simulation = timed(trace, policy)
        report = simulation.report
        print(
            f"{policy:7s} {requests} requests, {trace.decode_tokens / 1e6:.0f} M decode tokens: {full_s:.2f} s, "
            f"{requests / full_s:,.0f} requests/s, {len(simulation.steps):,} rows for "
            f"{simulation.steps.total_steps:,} steps; twice the requests cost x{full_s / half_s:.2f}; "
            f"load share {report.load_share:.2f}, mean batch {report.mean_running:.0f}, "
            f"utilisation {report.utilisation:.2f}, overloaded {report.overloaded}"
        )


if __name__ == "__main__":
    main()
