"""The lockstep kernel takes the very steps that the plain schedulers take, with every feature and with all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from tests.workloads.serving.cases import Case, random_case
from tests.workloads.serving.feature_reference import FeatureReference, Request
from workloads.errors import BadInput
from workloads.serving.features import Features, SglangKvRule, Speculation
from workloads.serving.limits import PolicyName
from workloads.serving.lockstep.run import run_lockstep
from workloads.serving.simulate import Simulation, admissible, simulate
from workloads.traces.prefix_blocks import PrefixBlocks

POLICIES: tuple[PolicyName, ...] = ("decode", "sglang", "vllm")
CASES = 60
Draw = Callable[[np.random.Generator, PolicyName], Features]


def rule(rng: np.random.Generator) -> SglangKvRule:
    """Numbers small enough for small cases to meet every branch."""
    return SglangKvRule(
        initial_ratio=float(rng.choice([0.25, 0.75])),
        least_ratio_factor=0.125,
        decay_steps=int(rng.choice([2, 16])),
        retract_steps=int(rng.integers(0, 6)),
        clip_tokens=int(rng.choice([3, 4096])),
        reserved_decode_tokens=int(rng.integers(0, 8)),
    )


def speculation(rng: np.random.Generator) -> Speculation:
    return Speculation(int(rng.integers(1, 5)), float(rng.choice([0.0, 0.3, 0.7, 1.0])), int(rng.integers(0, 9)))


FEATURES: dict[str, Draw] = {
    "preempt": lambda rng, policy: Features(preempt=True, sglang_kv_rule=rule(rng)),
    "prefix": lambda rng, policy: Features(preempt=True, prefix_cache=policy != "decode", sglang_kv_rule=rule(rng)),
    "speculation": lambda rng, policy: Features(speculation=speculation(rng)),
    "ranks": lambda rng, policy: Features(attention_ranks=int(rng.integers(2, 4))),
    "all": lambda rng, policy: Features(
        preempt=True,
        prefix_cache=policy != "decode",
        speculation=speculation(rng),
        attention_ranks=int(rng.integers(1, 4)),
        sglang_kv_rule=rule(rng),
    ),
}


def featured_case(policy: PolicyName, name: str, seed: int) -> tuple[Case, Features]:
    """A small case whose KV cache is tight, and the features to run it with."""
    rng = np.random.default_rng([seed, len(policy), len(name)])
    case = random_case(policy, seed)
    trace = case.trace
    longest = int((trace.input_tokens + trace.output_tokens).max())
    kv_tokens = int(longest * rng.choice([1.0, 1.3, 2.0])) + 4
    case = replace(case, limits=replace(case.limits, kv_tokens=kv_tokens))
    features = FEATURES[name](rng, policy)
    if features.speculation is not None:
        least = features.speculation.query_tokens
        case = replace(case, limits=replace(case.limits, token_budget=max(least, case.limits.token_budget)))
    return replace(case, trace=replace(trace, prefix_blocks=shared_blocks(rng, trace.input_tokens))), features


def shared_blocks(rng: np.random.Generator, input_tokens: np.ndarray) -> PrefixBlocks:
    """Ids of chains that branch: a block id stands for itself and all before it."""
    block_tokens = int(rng.choice([1, 4, 16]))
    ids: dict[tuple[int, ...], int] = {}
    rows = []
    for tokens in input_tokens:
        path: tuple[int, ...] = (int(rng.integers(0, 2)),)
        row = []
        for _ in range(-(-int(tokens) // block_tokens)):
            path = (*path, int(rng.random() < 0.1))
            row.append(ids.setdefault(path, 7 * len(ids)))
        rows.append(row)
    starts = np.cumsum([0, *map(len, rows)])
    return PrefixBlocks(block_tokens, np.array(list(chain.from_iterable(rows)), np.int64), starts.astype(np.int64))


def references(case: Case, features: Features) -> list[FeatureReference]:
    """One reference per engine, each with its own requests."""
    blocks = case.trace.prefix_blocks
    assert blocks is not None
    fits = admissible(case.trace, case.policy, case.limits, features)
    if case.policy == "decode":
        fits &= case.trace.output_tokens > 1
    made = []
    for engine in range(case.engines):
        requests = []
        for i in np.flatnonzero(fits):
            if i % case.engines != engine:
                continue
            tokens = int(case.trace.input_tokens[i])
            own = blocks.ids[blocks.starts[i] : blocks.starts[i + 1]][: tokens // blocks.block_tokens]
            arrival_ms = float(case.trace.arrival_s[i] * 1000.0 / case.load)
            shared = tuple(own.tolist()) if features.prefix_cache else ()
            requests.append(Request(int(i), arrival_ms, tokens, int(case.trace.output_tokens[i]), shared))
        block_tokens = blocks.block_tokens if features.prefix_cache else 1
        made.append(FeatureReference(case.policy, case.limits, case.time, features, requests, block_tokens))
    return made


def assert_same_steps(simulation: Simulation, expected: list[FeatureReference]) -> None:
    """Every row against the reference's steps that it stands for."""
    wanted = [step for reference in expected for step in reference.steps]
    got = simulation.steps
    assert got.total_steps == len(wanted)
    first = np.concatenate([[0], np.cumsum(got.steps)])
    for i in range(len(got)):
        steps = wanted[first[i] : first[i + 1]]
        assert {step.size for step in steps} == {int(got.size[i])}, i
        assert {step.family for step in steps} == {int(got.family_index[i])}, i
        assert got.start_s[i] * 1e3 == pytest.approx(steps[0].start_ms, rel=1e-9, abs=1e-9)
        assert got.step_ms[i] == pytest.approx(np.mean([step.step_ms for step in steps]), rel=1e-9)
        assert got.kv_tokens[i] == pytest.approx(np.mean([step.kv_tokens for step in steps]), rel=1e-9)


def run(case: Case, features: Features) -> Simulation:
    return simulate(
        case.trace, case.policy, case.limits, case.time, load=case.load, engines=case.engines, features=features
    )


def compare(case: Case, features: Features) -> Simulation | None:
    """Compare steps, request times and counts; None where nothing runs."""
    expected = references(case, features)
    if not any(reference.requests for reference in expected):
        with pytest.raises(BadInput, match="no request"):
            run(case, features)
        return None
    for reference in expected:
        reference.run()
    simulation = run(case, features)
    assert_same_steps(simulation, expected)
    times = simulation.requests
    for request in (request for reference in expected for request in reference.requests):
        for name, column in (
            ("scheduled_ms", times.scheduled_s),
            ("first_ms", times.first_token_s),
            ("finish_ms", times.finish_s),
        ):
            assert column[request.identity] * 1e3 == pytest.approx(getattr(request, name), rel=1e-9, abs=1e-9), name
    tally = simulation.tally
    assert tally is not None
    assert tally.preemptions == sum(reference.preemptions for reference in expected)
    assert tally.recomputed_tokens == sum(reference.recomputed for reference in expected)
    assert tally.prefilled_tokens == sum(reference.prefilled for reference in expected)
    assert tally.made_tokens == sum(reference.emitted for reference in expected)
    return simulation


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seeds", [range(CASES), pytest.param(range(CASES, 1000), marks=pytest.mark.slow)])
def test_equal_step_for_step(policy: PolicyName, name: str, seeds: range) -> None:
    preemptions = 0
    for seed in seeds:
        try:
            simulation = compare(*featured_case(policy, name, seed))
        except AssertionError as error:
            raise AssertionError(f"{policy}, {name}, seed {seed}: {error}") from error
        if simulation is not None:
            preemptions += simulation.report.preemptions
    assert (preemptions > len(seeds) // 10) == (name in ("preempt", "prefix", "all"))


@pytest.mark.parametrize("policy", POLICIES)
def test_without_features_it_is_the_plain_simulation(policy: PolicyName) -> None:
    for seed in range(CASES):
        case = replace(random_case(policy, seed), engines=1)
        fits = admissible(case.trace, policy, case.limits)
        own = np.flatnonzero(fits & (case.trace.output_tokens > 1) if policy == "decode" else fits)
        if not len(own):
            continue
        plain = run(case, Features())
        arrival_ms = case.trace.arrival_s[own] * 1000.0 / case.load
        tokens = (case.trace.input_tokens[own], case.trace.output_tokens[own])
        again = run_lockstep(own, arrival_ms, *tokens, policy, case.limits, case.time, Features(), None)
        sizes = [np.repeat(steps[0], steps[1]) for steps in ((plain.steps.size, plain.steps.steps), again.counts.T)]
        assert sizes[0].tolist() == sizes[1].tolist(), seed
        times_s = (plain.requests.scheduled_s, plain.requests.first_token_s, plain.requests.finish_s)
        np.testing.assert_allclose(again.times_ms * 1e-3, np.array(times_s)[:, own], rtol=1e-9, atol=1e-9)
