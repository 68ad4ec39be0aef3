"""How fast the simulation is: generated requests through every policy as their number grows, and what features cost.

    python -m benchmarks.simulate [--requests 1000000]

All times are CPU time of this process, so that other work on the machine counts less.

The traffic: Poisson arrivals at about 85 % of what one engine sustains, log-normal prompts (median 600 tokens) and
exponential outputs (mean 200 tokens), step times of the shape that an 8B model shows on one large GPU.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace

import numpy as np

from workloads.serving.capacity import engine_ms_per_request
from workloads.serving.features import Features, Speculation
from workloads.serving.limits import PolicyName, SchedulerLimits
from workloads.serving.simulate import Simulation, simulate
from workloads.serving.step_time import StepTime
from workloads.traces.prefix_blocks import PrefixBlocks
from workloads.traces.records import RequestTrace

POLICIES: tuple[PolicyName, ...] = ("decode", "sglang", "vllm")
LIMITS = SchedulerLimits(max_running_requests=512, token_budget=8192, chunked_prefill_tokens=8192, kv_tokens=1_000_000)
PLAIN = Features()
TIGHT = replace(LIMITS, kv_tokens=300_000)  # so that preemption and eviction happen all the time
FEATURES = {
    "preemption": (Features(preempt=True), TIGHT),
    "prefix cache": (Features(preempt=True, prefix_cache=True), TIGHT),
    "speculation": (Features(speculation=Speculation(3, 0.7)), LIMITS),
    "4 ranks": (Features(attention_ranks=4), LIMITS),
}
TOLD = ("preemptions", "recomputed_tokens", "prefix_hit_share", "tokens_per_step", "rank_padding")


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


def with_blocks(trace: RequestTrace, block_tokens: int = 512) -> RequestTrace:
    """The same requests as chats of 16 turns: a request begins with all whole blocks of the shorter of it and the one
    before it in its chat."""
    counts = -(-trace.input_tokens // block_tokens)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
    chat = np.repeat(np.arange(len(trace)) // 16, counts)
    longest = int(counts.max())
    return replace(trace, prefix_blocks=PrefixBlocks(block_tokens, chat * longest + within, starts))


@dataclass(frozen=True)
class Timed:
    """CPU seconds of this process for one simulation, the best of some, and the simulation."""

    cpu_s: float
    simulation: Simulation

    @property
    def changes(self) -> int:
        """Steps that changed the batch: rows of the step trace."""
        return len(self.simulation.steps)


def timed(
    trace: RequestTrace,
    policy: PolicyName,
    features: Features = PLAIN,
    limits: SchedulerLimits = LIMITS,
    repeats: int = 2,
) -> Timed:
    best_s = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        simulation = simulate(trace, policy, limits, step_time(), features=features)
        best_s = min(best_s, time.process_time() - begin)
    return Timed(best_s, simulation)


def compiled_s(policy: PolicyName, features: Features) -> float:
    """CPU seconds of a first small run: compiling, or reading the cache of an earlier process."""
    return timed(with_blocks(traffic(100, policy)), policy, features, repeats=1).cpu_s


def growth(policy: PolicyName, requests: int) -> None:
    """Plain batching as the number of requests grows: seconds for each step that changes the batch stay the same."""
    for count in (requests // 4, requests // 2, requests):
        trace = traffic(count, policy)
        run = timed(trace, policy)
        report = run.simulation.report
        print(
            f"{policy:7s} {count:9,} requests, {trace.decode_tokens / 1e6:4.0f} M decode tokens, "
            f"{run.simulation.steps.total_steps:10,} steps, {run.changes:9,} changes: {run.cpu_s:6.2f} s, "
            f"{run.cpu_s / run.changes * 1e6:.2f} us a change; load share {report.load_share:.2f}, mean batch "
            f"{report.mean_running:.0f}, utilisation {report.utilisation:.2f}, overloaded {report.overloaded}"
        )


def extras(policy: PolicyName, requests: int) -> None:
    """What each feature costs by itself, beside plain batching of the same requests."""
    trace = with_blocks(traffic(requests, policy))
    plain = timed(trace, policy)
    print(f"{policy:7s} {requests:9,} requests, plain: {plain.cpu_s:.2f} s")
    for name, (features, limits) in FEATURES.items():
        if policy == "decode" and features.prefix_cache:
            continue
        run = timed(trace, policy, features, limits, repeats=1)
        report = run.simulation.report
        told = ", ".join(f"{key} {value}" for key in TOLD if (value := _shown(getattr(report, key))))
        print(
            f"        {name:12s} {run.cpu_s:6.2f} s (x{run.cpu_s / plain.cpu_s:.1f}), {run.changes:9,} changes, "
            f"{run.cpu_s / run.changes * 1e6:.2f} us a change; {told or 'nothing of it happened'}"
        )


def _shown(value: float | int | None) -> str:
    return "" if not value else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=1_000_000)
    requests = parser.parse_args().requests
    for policy in POLICIES:
        print(f"{policy:7s} first run, plain: {compiled_s(policy, PLAIN):.1f} s of CPU time")
    print(f"        first run, with a feature: {compiled_s('vllm', FEATURES['prefix cache'][0]):.1f} s of CPU time")
    for policy in POLICIES:
        growth(policy, requests)
    for policy in POLICIES:
        extras(policy, requests)


if __name__ == "__main__":
    main()
