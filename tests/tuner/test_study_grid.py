"""Where the recurrence is not the answer: the study against every point of a grid over the same space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from tests.tuner.curves import family, staircase
from tuner.budget import Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile, PrefillCost
from tuner.engines.registry import engine
from tuner.recommendation import SamplerName, ServingOptions
from tuner.study import run_study
from tuner.study_space import LEAST_PRICE_MS, MOST_PRICE_MS, MOST_ROUNDS, Plan, Searched, Space
from tuner.study_trial import Evaluator
from workloads.serving.goodput import Slo
from workloads.traces.records import RequestTrace

MOST_TRIALS, WITHIN = 60, 1.01
SIZES = np.array([1, 2, 4, 8, *range(16, 129, 16)])
PROFILE = CostProfile(
    "coarse",
    {"decode_full": family(SIZES, fallback_ms=16.0 + 0.02 * SIZES)},
    PrefillCost(np.array([128.0, 2048.0]), np.zeros(2), np.array([9.0, 45.0])),
)


@dataclass(frozen=True)
class Problem:
    """A case, its traffic, and the engine options that vary."""

    case: Case
    trace: RequestTrace
    searched: Searched


def requests(rate_per_s: float, count: int, input_tokens: int, output_tokens: int) -> RequestTrace:
    rng = np.random.default_rng(1)
    arrival_s = np.cumsum(rng.exponential(1.0 / rate_per_s, count))
    lengths = rng.integers(1, 2 * output_tokens, count)
    return RequestTrace(arrival_s - arrival_s[0], np.full(count, input_tokens), lengths)


def closed_loop_with_fallback() -> Problem:
    """Six sizes at most and no promise: what is left to eager steps slows the service, and so makes larger batches."""
    sglang = engine("sglang@0.5.23")
    options = sglang.options({"max_running_requests": "128", "cuda_graph_max_bs_decode": "128"})
    serving = ServingOptions(policy="decode", slo=Slo(tpot_ms=8.2))
    case = Case(sglang, options, PROFILE, serving, Budget(regret=math.inf, max_length=6), "step")
    return Problem(case, requests(110.0, 400, 300, 120), Searched())


def kv_displacement() -> Problem:
    """Graphs of 400 MiB each leave the less KV cache, and so the fewer requests at once, the more there are."""
    trt = engine("tensorrt-llm@1.3")
    raw = {
        "max_batch_size": "128",
        "gpu_memory_gib": "24",
        "free_gpu_memory_fraction": "0.9",
        "weights_gib": "16",
        "activation_gib": "0",
        "kv_bytes_per_token": "131072",
        "enable_chunked_prefill": "true",
    }
    cost = family(SIZES, step_ms=staircase(SIZES) + 0.04 * SIZES, memory_mib=np.full(len(SIZES), 400.0), pool_mib=0.0)
    profile = CostProfile("heavy graphs", {"decode_full": cost}, PROFILE.prefill)
    serving = ServingOptions(slo=Slo(ttft_ms=4000.0))
    case = Case(trt, trt.options(raw), profile, serving, Budget(regret=math.inf), "step")
    return Problem(case, requests(12.0, 300, 400, 200), Searched(raw))


def scheduler_limits() -> Problem:
    """Requests at once and tokens in a step decide who keeps the promise."""
    vllm = engine("vllm@0.33.0")
    raw = {"max_num_seqs": "128", "max_num_batched_tokens": "8192"}
    serving = ServingOptions(slo=Slo(ttft_ms=900.0, tpot_ms=14.0))
    case = Case(vllm, vllm.options(raw), PROFILE, serving, Budget(regret=math.inf, max_length=5), "step")
    choices = {
        "max_num_seqs": ("16", "32", "64", "128"),
        "max_num_batched_tokens": ("512", "8192"),
    }
    return Problem(case, requests(50.0, 400, 500, 100), Searched(raw, choices))


PROBLEMS = (closed_loop_with_fallback, kv_displacement, scheduler_limits)


def best_of_grid(problem: Problem) -> float:
    """The least first objective over the whole space, its two continuous axes at their ends."""
    case = problem.case
    space = Space(case, problem.trace, case.observe(problem.trace, case.default_lists()), problem.searched)
    evaluator = Evaluator(space, problem.trace)
    axes = {
        "list_length": range(1, space.base.longest + 1),
        "token_weight": (0.0, 1.0),
        "price_ms": (LEAST_PRICE_MS, MOST_PRICE_MS),
        "rounds": range(1, MOST_ROUNDS + 1),
        "largest": space.base.problem.candidates.tolist(),
        **problem.searched.choices,
    }
    points = (dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values()))
    plans: Iterator[Plan] = itertools.chain(space.first_plans(), map(space.decode, points))
    best = math.inf
    for plan in plans:
        trial = evaluator.try_plan(plan, 0).trial
        if trial.state == "complete":
            best = min(best, trial.values[evaluator.figure])
    return best


def best_of_study(problem: Problem, sampler: SamplerName, seed: int) -> float:
    case = problem.case
    trials = run_study(
        case,
        problem.trace,
        case.observe(problem.trace, case.default_lists()),
        trials=MOST_TRIALS,
        seed=seed,
        sampler=sampler,
        searched=problem.searched,
    )
    return min(next(iter(trial.values.values())) for trial in trials if trial.state == "complete")


@pytest.mark.parametrize("make", PROBLEMS)
def test_the_best_of_60_trials_is_within_1_percent_of_the_whole_grid(make: Callable[[], Problem]) -> None:
    problem = make()
    best = best_of_grid(problem)
    for seed in (0, 1):
        assert best_of_study(problem, "tpe", seed) <= WITHIN * best
    assert best_of_study(problem, "nsgaii", seed=0) <= WITHIN * best


def test_the_recurrence_alone_would_miss_it() -> None:
    problem = scheduler_limits()
    case = problem.case
    before = case.observe(problem.trace, case.default_lists())
    seen = case.observe(problem.trace, case.lists_of(case.front(before).points[-1].sizes))
    assert seen.report is not None and seen.report.goodput_requests_per_s is not None
    assert 1e3 / seen.report.goodput_requests_per_s > 2 * best_of_study(problem, "tpe", seed=0)
