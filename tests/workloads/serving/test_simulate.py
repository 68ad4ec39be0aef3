"""What a user of the simulation can rely on: conservation, limits, Little's law, capacity, clear refusals."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from workloads.arrays import F64
from workloads.errors import BadInput, BadUsage
from workloads.serving.limits import PolicyName, SchedulerLimits
from workloads.serving.simulate import Simulation, simulate
from workloads.serving.step_time import StepTime
from workloads.traces.records import RequestTrace

POLICIES: tuple[PolicyName, ...] = ("decode", "sglang", "vllm")
LIMITS = SchedulerLimits(max_running_requests=64, token_budget=2048, chunked_prefill_tokens=2048, kv_tokens=120_000)
NONE = np.empty(0)
# Replay times that a Llama-3.1-8B shape showed on one H200, at the sizes 1, 8, 64, 128, 256, 512.
SIZES, REPLAY_MS = np.array([1, 8, 64, 128, 256, 512]), np.array([6.2, 6.5, 7.5, 8.6, 11.3, 18.3])


def staircase(largest: int = 512) -> F64:
    """decode_ms of a ladder of 51 sizes on that curve, with a bad step at 400..448."""
    ladder = np.array([1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)])
    bucket_ms = np.interp(ladder, SIZES, REPLAY_MS) * np.where((ladder >= 400) & (ladder <= 448), 1.2, 1.0)
    return bucket_ms[np.minimum(np.searchsorted(ladder, np.arange(largest + 1)), len(ladder) - 1)]


def step_time() -> StepTime:
    return StepTime(staircase(), 2e-5, 1e-3, np.array([128.0, 2048.0, 8192.0]), np.array([6.5, 31.0, 125.0]), 2e-7)


def traffic(requests: int = 3000, rate: float = 12.0, seed: int = 0) -> RequestTrace:
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(1 / rate, requests))
    input_tokens = np.clip(rng.lognormal(6.0, 1.0, requests), 1, 20_000).astype(np.int64)
    return RequestTrace(arrival_s - arrival_s[0], input_tokens, 1 + rng.geometric(1 / 120, requests))


def decode_rows(simulation: Simulation) -> F64:
    """decode_full rows as (size, steps, step_ms, kv_tokens)."""
    steps = simulation.steps
    rows = steps.family_index == 0
    return np.stack([steps.size[rows], steps.steps[rows], steps.step_ms[rows], steps.kv_tokens[rows]]).astype(float)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.3, 3.0])
def test_every_token_is_made_once(policy: PolicyName, load: float) -> None:
    trace = traffic()
    simulation = simulate(trace, policy, LIMITS, step_time(), load=load, engines=2)
    sizes = simulation.steps.size * simulation.steps.steps
    decode, other = (int(sizes[simulation.steps.family_index == i].sum()) for i in (0, 1))
    assert simulation.report.completed == len(trace)
    if policy == "vllm":  # mixed steps carry both
        assert decode + other == trace.decode_tokens + int(trace.input_tokens.sum())
    else:
        assert decode == trace.decode_tokens
        assert other == (int(trace.input_tokens.sum()) if policy == "sglang" else 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_limits_hold_under_overload(policy: PolicyName) -> None:
    limits = replace(LIMITS, max_running_requests=40, token_budget=512, chunked_prefill_tokens=300, kv_tokens=30_000)
    simulation = simulate(traffic(), policy, limits, step_time(), load=20)
    steps = simulation.steps
    decode = steps.family_index == 0
    assert simulation.report.overloaded
    assert simulation.report.peak_running <= 40
    assert steps.size[decode].max() <= 40
    assert steps.kv_tokens.max() <= 30_000
    if policy == "sglang":
        assert steps.size[~decode].max() == 300
    if policy == "vllm":
        assert steps.size[~decode].max() == 512


def test_littles_law() -> None:
    """Mean number of running requests = throughput x mean time in the batch, over the makespan."""
    trace = traffic()
    simulation = simulate(trace, "decode", LIMITS, step_time(), load=2)
    size, steps, step_ms, _ = decode_rows(simulation)
    makespan_s = simulation.report.makespan_s
    mean_running = float(np.sum(size * steps * step_ms)) * 1e-3 / makespan_s
    stay_s = simulation.requests.finish_s - simulation.requests.scheduled_s
    throughput = len(trace) / makespan_s
    assert mean_running == pytest.approx(throughput * float(stay_s.mean()), rel=1e-9)
    assert simulation.report.utilisation == pytest.approx(float(np.sum(steps * step_ms)) * 1e-3 / makespan_s)


def test_a_single_request_by_hand() -> None:
    """Prompt 10, outputs 4: prefill 10 ms (no faster than 20 tokens), then 3 steps of 2 + 0.5 x (11..13) + 1 ms."""
    trace = RequestTrace(np.zeros(1), np.array([10]), np.array([4]))
    cost = StepTime(np.array([0.0, 2.0]), 0.5, 1.0, np.array([20.0]), np.array([10.0]))
    simulation = simulate(trace, "sglang", SchedulerLimits(1), cost)
    assert simulation.steps.size.tolist() == [10, 1]
    assert simulation.steps.steps.tolist() == [1, 3]
    assert simulation.steps.step_ms.tolist() == pytest.approx([10.0, 9.0])
    assert simulation.steps.kv_tokens.tolist() == pytest.approx([0.0, 12.0])
    report = simulation.report
    assert report.makespan_s == pytest.approx(0.037)
    assert report.ttft_p50_s == pytest.approx(0.010)
    assert report.tpot_mean_ms == pytest.approx(9.0)
    assert report.utilisation == pytest.approx(1.0)
    assert report.throughput_tokens_per_s == pytest.approx(3 / 0.037)
    assert report.share_at_cap == 1.0


@pytest.mark.parametrize("policy", POLICIES)
def test_overload_shows(policy: PolicyName) -> None:
    """Calm below capacity, flagged above; and the stated sustainable rate is what the engine then really makes."""
    calm = simulate(traffic(), policy, LIMITS, step_time(), load=0.3).report
    assert not calm.overloaded
    assert calm.load_share < 0.5
    assert calm.queue_wait_p99_s < 1.0
    pushed = simulate(traffic(), policy, LIMITS, step_time(), load=0.3 * 1.5 / calm.load_share).report
    assert pushed.overloaded
    assert pushed.load_share == pytest.approx(1.5)
    assert pushed.queue_wait_p99_s > 10 * calm.queue_wait_p99_s
    trace = traffic()
    offered = trace.decode_tokens / trace.span_s * 0.3 * 1.5 / calm.load_share
    assert pushed.throughput_tokens_per_s == pytest.approx(offered / pushed.load_share, rel=0.15)


def test_a_queue_that_grows_is_overload_whatever_the_mean_says() -> None:
    """A burst at the end: the mean rate is sustainable, the queue at the end is not gone."""
    arrival_s = np.concatenate([np.linspace(0, 900, 300), np.linspace(901, 1000, 4000)])
    trace = RequestTrace(arrival_s, np.full(4300, 500), np.full(4300, 200))
    report = simulate(trace, "decode", replace(LIMITS, max_running_requests=16), step_time()).report
    assert report.load_share < 1
    assert report.overloaded


def test_a_short_burst_that_comes_last_is_no_overload() -> None:
    arrival_s = np.concatenate([np.linspace(0, 999, 500), np.full(100, 1000.0)])
    trace = RequestTrace(arrival_s, np.full(600, 500), np.full(600, 200))
    report = simulate(trace, "decode", replace(LIMITS, max_running_requests=16), step_time()).report
    assert report.load_share < 0.5
    assert not report.overloaded


def test_slower_steps_make_bigger_batches() -> None:
    fast = simulate(traffic(), "decode", LIMITS, step_time()).report
    slow = simulate(traffic(), "decode", LIMITS, replace(step_time(), decode_ms=2 * staircase())).report
    assert slow.mean_running > 1.5 * fast.mean_running


def test_engines_share_the_requests_and_keep_their_own_steps() -> None:
    trace = traffic(400)
    both = simulate(trace, "vllm", LIMITS, step_time(), engines=2)
    alone = [
        simulate(
            RequestTrace(trace.arrival_s[e::2], trace.input_tokens[e::2], trace.output_tokens[e::2]),
            "vllm",
            LIMITS,
            step_time(),
        )
        for e in (0, 1)
    ]
    assert both.steps.size.tolist() == [*alone[0].steps.size, *alone[1].steps.size]
    assert both.report.load_share == pytest.approx(np.mean([a.report.load_share for a in alone]), rel=0.1)


def test_rejected_and_single_token_requests_are_counted() -> None:
    trace = RequestTrace(np.arange(4.0), np.array([10, 95, 10, 10]), np.array([5, 6, 1, 5]))
    limits = SchedulerLimits(4, kv_tokens=100)
    simulation = simulate(trace, "decode", limits, step_time())
    assert (simulation.report.completed, simulation.report.rejected) == (3, 1)
    assert np.isnan(simulation.requests.finish_s).tolist() == [False, True, True, False]
    assert simulation.steps.total_steps == 8


def test_the_histogram_feeds_the_decision() -> None:
    simulation = simulate(traffic(), "vllm", LIMITS, step_time())
    histograms = simulation.steps.histograms()
    assert set(histograms) == {"decode_full", "decode_piecewise"}
    assert histograms["decode_full"].origin == "simulation"
    assert {h.unit for h in histograms.values()} == {"tokens"}
    assert sum(h.total_steps for h in histograms.values()) == simulation.steps.total_steps


@pytest.mark.parametrize("policy", ["sglang", "vllm"])
def test_prefill_policies_need_prefill_times(policy: PolicyName) -> None:
    with pytest.raises(BadInput, match="use the decode policy or a profile with prefill points"):
        simulate(traffic(10), policy, LIMITS, replace(step_time(), prefill_tokens=NONE, prefill_ms=NONE))


def test_what_is_refused() -> None:
    trace, cost = traffic(10), step_time()
    with pytest.raises(BadInput, match="up to 512 requests"):
        simulate(trace, "decode", replace(LIMITS, max_running_requests=513), cost)
    with pytest.raises(BadUsage, match="max_num_batched_tokens"):
        simulate(trace, "vllm", replace(LIMITS, token_budget=63), cost)
    with pytest.raises(BadInput, match="rejected"):
        simulate(trace, "decode", replace(LIMITS, kv_tokens=2), cost)
    with pytest.raises(BadInput, match="attention_ms_per_token"):
        simulate(trace, "decode", LIMITS, replace(cost, attention_ms_per_token=-1.0))
    with pytest.raises(BadInput, match="one output token"):
        simulate(replace(trace, output_tokens=np.ones(10, np.int64)), "decode", LIMITS, cost)
    for load, engines in ((0.0, 1), (float("nan"), 1), (1.0, 0)):
        with pytest.raises(BadUsage):
            simulate(trace, "decode", LIMITS, cost, load=load, engines=engines)


def azure_conversation(folder: Path) -> RequestTrace:
    lines = (folder / "azure/AzureLLMInferenceTrace_conv.csv").read_text().splitlines()[1:]
    columns = [line.split(" ")[1].split(",") for line in lines]  # one day: the clock is enough
    clock = [column[0].split(":") for column in columns]
    seconds = np.array([3600 * int(h) + 60 * int(m) + float(s) for h, m, s in clock])
    tokens = np.array([[int(column[1]), int(column[2])] for column in columns])
    return RequestTrace(seconds - seconds[0], tokens[:, 0].copy(), tokens[:, 1].copy())


@pytest.mark.parametrize(("load", "mean_batch"), [(1, 8), (12, 116), (20, 306)])
def test_azure_conversation_traffic(public_traces: Path, load: float, mean_batch: float) -> None:
    """Batches in the neighbourhood of those that this curve gave before (8, 116, 306), within half a second."""
    trace = azure_conversation(public_traces)
    assert len(trace) == 19_366
    cost = StepTime(staircase(), 0.0, 0.0, NONE, NONE)
    simulate(trace.window(0, 100), "decode", SchedulerLimits(512), cost)  # compiles
    begin = time.process_time()
    report = simulate(trace, "decode", SchedulerLimits(512), cost, load=load).report
    assert time.process_time() - begin < 0.5
    assert report.mean_running == pytest.approx(mean_batch, rel=0.15)
    assert not report.overloaded


@pytest.fixture(scope="module")
def million() -> RequestTrace:
    return traffic(1_000_000)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_million_requests_take_seconds(million: RequestTrace, policy: PolicyName) -> None:
    """The promise is 10 s of CPU time; on an idle core it is well under one."""
    simulate(million.window(0, 100), policy, LIMITS, step_time())  # compiles
    begin = time.process_time()
    report = simulate(million, policy, LIMITS, step_time(), load=0.3).report
    assert time.process_time() - begin < 10
    assert report.completed + report.rejected == 1_000_000


@pytest.mark.parametrize("policy", POLICIES)
def test_cost_follows_events_not_steps(policy: PolicyName) -> None:
    """A thousand times the tokens take many more steps, and still at most three rows a request."""
    small = RequestTrace(np.arange(2000) * 1e-3, np.full(2000, 100), np.arange(2000) % 50 + 2)
    large = replace(small, output_tokens=small.output_tokens * 1000)
    few, many = (
        simulate(trace, policy, replace(LIMITS, kv_tokens=None), step_time()).steps for trace in (small, large)
    )
    assert many.total_steps > 200 * few.total_steps
    assert len(many) <= 3 * len(large) + 1
