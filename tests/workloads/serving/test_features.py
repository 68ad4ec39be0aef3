"""What holds with every feature on: tokens come out exactly once, and batch, arrivals and stay obey Little's law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.workloads.serving.test_lockstep import POLICIES, featured_case, run
from tests.workloads.serving.test_simulate import LIMITS, step_time, traffic
from workloads.errors import BadInput, BadUsage
from workloads.serving.features import Features, SglangKvRule, Speculation
from workloads.serving.limits import PolicyName, SchedulerLimits
from workloads.serving.simulate import Simulation, simulate
from workloads.traces.prefix_blocks import PrefixBlocks
from workloads.traces.records import RequestTrace

EAGER = SglangKvRule(reserved_decode_tokens=16)  # a decode node that keeps 512 tokens a request hardly ever runs out
ALL = Features(True, True, Speculation(3, 0.6), attention_ranks=2, sglang_kv_rule=EAGER)


def features_for(policy: PolicyName) -> Features:
    return replace(ALL, prefix_cache=False) if policy == "decode" else ALL


def with_blocks(trace: RequestTrace, block_tokens: int = 64) -> RequestTrace:
    """Every third request begins like the third before it."""
    counts = -(-trace.input_tokens // block_tokens)
    starts = np.concatenate(([0], np.cumsum(counts)))
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
    session = np.repeat(np.arange(len(trace)) % 3, counts)
    alone = np.arange(starts[-1]) + 1_000_000
    return replace(
        trace, prefix_blocks=PrefixBlocks(block_tokens, np.where(within < 8, session * 8 + within, alone), starts)
    )


def resident(simulation: Simulation) -> np.ndarray:
    """Requests between their first and last token when each row of steps begins."""
    start_s = simulation.steps.start_s
    begun = np.sort(simulation.requests.first_token_s)
    ended = np.sort(simulation.requests.finish_s)
    slack = 1e-9
    return np.searchsorted(begun, start_s + slack) - np.searchsorted(ended, start_s + slack)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_token_comes_out_exactly_once(policy: PolicyName) -> None:
    trace = with_blocks(traffic(1500))
    limits = replace(LIMITS, kv_tokens=25_000)
    simulation = simulate(trace, policy, limits, step_time(), load=40, features=features_for(policy))
    tally, report, times = simulation.tally, simulation.report, simulation.requests
    assert tally is not None
    ran = ~np.isnan(times.finish_s)
    first_made_elsewhere = int(ran.sum()) if policy == "decode" else 0
    assert tally.made_tokens == int(trace.output_tokens[ran].sum()) - first_made_elsewhere
    assert report.completed + report.rejected == len(trace)
    assert report.preemptions > 0
    assert 1 < (report.tokens_per_step or 0) < 4
    assert 0 < (report.rank_padding or 0) < 0.5
    if policy != "decode":
        assert 0.05 < (report.prefix_hit_share or 0) < 1
        assert tally.prefilled_tokens >= report.recomputed_tokens > 0
    assert np.all(times.arrival_s[ran] <= times.scheduled_s[ran])
    assert np.all(times.scheduled_s[ran] < times.first_token_s[ran])
    assert np.all(times.first_token_s[ran] <= times.finish_s[ran])


@pytest.mark.parametrize("policy", POLICIES)
def test_random_cases_make_every_token_once(policy: PolicyName) -> None:
    for seed in range(300):
        case, features = featured_case(policy, "all", seed)
        try:
            simulation = run(case, features)
        except BadInput:
            continue
        ran = ~np.isnan(simulation.requests.finish_s)
        made_elsewhere = int(ran.sum()) if policy == "decode" else 0
        assert simulation.tally is not None
        assert simulation.tally.made_tokens == int(case.trace.output_tokens[ran].sum()) - made_elsewhere, seed


@pytest.mark.parametrize("features", [Features(preempt=True), ALL], ids=["one rank", "all"])
def test_littles_law(features: Features) -> None:
    """Where nobody is preempted, the rows of every step are the requests between their first and last token; so mean
    batch = rate x mean stay. Ranks are counted by the largest."""
    trace = with_blocks(traffic(1500))
    limits = replace(LIMITS, token_budget=4096, kv_tokens=10**7)
    simulation = simulate(trace, "vllm", limits, step_time(), load=1.5, features=features)
    decode = simulation.steps.family_index == 0
    query = 1 if features.speculation is None else features.speculation.query_tokens
    rows = simulation.steps.size[decode] // query
    there = resident(simulation)[decode]
    ranks = features.attention_ranks
    assert simulation.report.preemptions == 0
    assert np.all(rows <= there) and np.all(there <= ranks * rows)
    if ranks == 1:
        assert np.array_equal(rows, there)


@pytest.mark.parametrize("policy", POLICIES)
def test_preemption_bounds_what_is_held(policy: PolicyName) -> None:
    limits = replace(LIMITS, kv_tokens=20_000)
    reserved = simulate(traffic(800), policy, limits, step_time(), load=5).report
    features = Features(preempt=True, sglang_kv_rule=EAGER)
    preempted = simulate(traffic(800), policy, limits, step_time(), load=5, features=features)
    assert preempted.steps.kv_tokens.max() <= 20_000
    assert preempted.report.preemptions > 0
    assert preempted.report.mean_running > reserved.mean_running
    if policy == "decode":
        assert preempted.report.recomputed_tokens == 0  # KV comes back from host memory


def test_a_seed_gives_the_same_draws_whatever_the_step_times() -> None:
    features = Features(speculation=Speculation(4, 0.7, seed=3))
    fast = simulate(traffic(300), "decode", LIMITS, step_time(), features=features)
    slow_times = replace(step_time(), decode_ms=2 * step_time().decode_ms)
    slow = simulate(traffic(300), "decode", LIMITS, slow_times, features=features)
    assert fast.tally is not None and slow.tally is not None
    assert fast.tally.row_steps == slow.tally.row_steps
    other = simulate(traffic(300), "decode", LIMITS, step_time(), features=Features(speculation=Speculation(4, 0.7, 4)))
    assert other.tally is not None and other.tally.row_steps != fast.tally.row_steps


def test_accepted_tokens_follow_the_truncated_geometric_law() -> None:
    speculation = Speculation(3, 0.7)
    trace = RequestTrace(np.arange(200.0), np.full(200, 10), np.full(200, 2001))
    report = simulate(trace, "decode", LIMITS, step_time(), features=Features(speculation=speculation)).report
    assert speculation.mean_tokens == pytest.approx(1 + 0.7 + 0.49 + 0.343)
    assert report.tokens_per_step == pytest.approx(speculation.mean_tokens, rel=0.01)


def test_a_free_prefix_is_not_computed_again() -> None:
    """Two equal prompts of 4 blocks, far apart: the second computes its last block only, because one token is left."""
    blocks = PrefixBlocks(16, np.array([0, 1, 2, 3, 0, 1, 2, 3]), np.array([0, 4, 8]))
    trace = RequestTrace(np.array([0.0, 100.0]), np.full(2, 64), np.full(2, 3), prefix_blocks=blocks)
    features = Features(preempt=True, prefix_cache=True)
    for policy in ("vllm", "sglang"):
        simulation = simulate(trace, policy, SchedulerLimits(4, kv_tokens=200), step_time(), features=features)  # type: ignore[arg-type]
        prefill = simulation.steps.size[simulation.steps.family_index == 1]
        assert prefill.tolist() == [64, 16]
        assert simulation.report.prefix_hit_share == pytest.approx(48 / 128)
    small = simulate(trace, "vllm", SchedulerLimits(4, kv_tokens=70), step_time(), features=features)
    assert small.report.prefix_hit_share == pytest.approx(48 / 128)  # what nobody needs stays, however small the cache


def test_what_is_refused() -> None:
    trace = traffic(20)
    with pytest.raises(BadUsage, match="needs preempt"):
        Features(prefix_cache=True)
    with pytest.raises(BadUsage, match="at least 1"):
        Features(attention_ranks=0)
    for bad in ((0, 0.5), (2, -0.1), (2, float("nan"))):
        with pytest.raises(BadUsage):
            Speculation(*bad)
    with pytest.raises(BadInput, match="no block hashes"):
        simulate(trace, "vllm", LIMITS, step_time(), features=Features(preempt=True, prefix_cache=True))
    with pytest.raises(BadUsage, match="computes no prompt"):
        simulate(with_blocks(trace), "decode", LIMITS, step_time(), features=Features(preempt=True, prefix_cache=True))
    with pytest.raises(BadUsage, match="100000000 ranks of 20 requests"):
        simulate(trace, "decode", LIMITS, step_time(), features=Features(attention_ranks=100_000_000))
    tight = replace(LIMITS, max_running_requests=2, token_budget=3)
    with pytest.raises(BadUsage, match="one decode step of 4 tokens"):
        simulate(trace, "vllm", tight, step_time(), features=Features(speculation=Speculation(3, 0.5)))
