"""What the options for preemption, prefix cache, speculation and attention ranks do to a workload's step sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tuner.test_traffic import burst
from tuner.budget import Budget
from tuner.case import Case
from tuner.closed_loop import Rise, rise_of
from tuner.cost_profile import CostProfile
from tuner.engines.registry import engine
from tuner.recommendation import ServingOptions
from tuner.traffic import observe
from workloads.errors import BadInput, BadUsage
from workloads.traces.records import RequestTrace

SGLANG = engine("sglang@0.5.23")
VLLM = engine("vllm@0.33.0")
EAGLE = {"speculative_algorithm": "EAGLE", "speculative_num_draft_tokens": "4"}


def test_accepted_drafts_make_fewer_steps_of_the_same_size(profile: CostProfile) -> None:
    options = SGLANG.options(EAGLE)
    all_accepted = ServingOptions("decode", acceptance=1.0)
    seen = observe(burst(10, 21), SGLANG, options, profile, all_accepted)
    assert seen.decode.counts() == {10: 5.0}  # 20 tokens, 4 a step; SGLang counts requests
    assert seen.report is not None and seen.report.tokens_per_step == pytest.approx(4.0)
    none_accepted = ServingOptions("decode", acceptance=0.0)
    assert observe(burst(10, 21), SGLANG, options, profile, none_accepted).decode.counts() == {10: 20.0}


def test_vllm_counts_the_tokens_that_a_step_verifies(profile: CostProfile) -> None:
    by_tokens = replace(profile, families={"decode_full": replace(profile.family("decode_full"), unit="tokens")})
    options = VLLM.options({"max_num_seqs": "64", "num_speculative_tokens": "3"})
    for policy in ("vllm", "decode"):
        serving = ServingOptions(policy, acceptance=1.0)  # type: ignore[arg-type]
        seen = observe(burst(10, 21), VLLM, options, by_tokens, serving)
        assert seen.decode.counts() == {40: 5.0}


def test_without_an_engine_draft_tokens_are_an_option(profile: CostProfile) -> None:
    serving = ServingOptions("decode", acceptance=1.0, spec_tokens=3)
    assert observe(burst(10, 21), None, None, profile, serving).decode.counts() == {10: 5.0}


def test_a_speculating_engine_without_an_acceptance_is_told_so(profile: CostProfile) -> None:
    seen = observe(burst(10, 21), SGLANG, SGLANG.options(EAGLE), profile, ServingOptions("decode"))
    assert seen.decode.counts() == {10: 20.0}
    assert any("give --acceptance" in note for note in seen.notes)


def test_ranks_of_the_engines_own_options_share_the_requests(profile: CostProfile) -> None:
    options = SGLANG.options({"tp_size": "4", "dp_size": "4", "enable_dp_attention": "true"})
    seen = observe(burst(10), SGLANG, options, profile, ServingOptions("decode"))
    assert seen.decode.counts() == {3: 19.0}  # 3, 3, 2 and 2 requests, padded to the largest rank
    assert seen.report is not None and seen.report.rank_padding == pytest.approx(1 - 10 / 12)
    alone = observe(burst(10), SGLANG, options, profile, ServingOptions("decode", dp_attention=1))
    assert alone.decode.counts() == {10: 19.0}


def test_preemption_lets_more_run_than_reservation(profile: CostProfile) -> None:
    trace = burst(12, 40)  # each needs 50 tokens in the end and 10 at first
    reserved = observe(trace, VLLM, VLLM.options({}), profile, ServingOptions("vllm", kv_tokens=300)).report
    preempted = observe(
        trace, VLLM, VLLM.options({}), profile, ServingOptions("vllm", kv_tokens=300, preempt=True)
    ).report
    assert reserved is not None and preempted is not None
    assert reserved.peak_running == 6 and reserved.preemptions == 0
    assert preempted.peak_running == 12 and preempted.preemptions > 0 and preempted.recomputed_tokens > 0
    assert preempted.completed == reserved.completed == 12


@pytest.mark.parametrize(
    ("serving", "problem"),
    [
        (ServingOptions("decode", acceptance=0.5), "needs draft tokens"),
        (ServingOptions("decode", spec_tokens=2), "needs an acceptance"),
        (ServingOptions("decode", prefix_cache=True), "computes no prompt"),
    ],
)
def test_options_that_need_each_other(profile: CostProfile, serving: ServingOptions, problem: str) -> None:
    with pytest.raises(BadUsage, match=problem):
        observe(burst(4), None, None, profile, serving)


def test_bad_values_and_disagreement_are_bad_usage(profile: CostProfile) -> None:
    for values in ({"acceptance": 1.5}, {"acceptance": np.nan}, {"spec_tokens": 0}, {"dp_attention": 0}):
        with pytest.raises(BadUsage):
            ServingOptions(**values)
    with pytest.raises(BadUsage, match="draft 3 tokens"):
        serving = ServingOptions("decode", acceptance=0.5, spec_tokens=5)
        observe(burst(4), SGLANG, SGLANG.options(EAGLE), profile, serving)
    with pytest.raises(BadInput, match="no block hashes"):
        observe(burst(4), None, None, profile, ServingOptions("vllm", prefix_cache=True))


def test_a_batch_settles_by_ranks_and_accepted_tokens(profile: CostProfile) -> None:
    trace = RequestTrace(np.arange(100) * 0.1, np.full(100, 10), np.full(100, 41))

    def rise(raw: dict[str, str], serving: ServingOptions) -> Rise:
        return rise_of(Case(SGLANG, SGLANG.options(raw), profile, serving, Budget(), "step"), trace, {})

    plain = rise({}, ServingOptions("decode"))
    ranks = rise({"tp_size": "4", "dp_size": "4", "enable_dp_attention": "true"}, ServingOptions("decode"))
    assert ranks.requests_per_s == pytest.approx(plain.requests_per_s / 4)
    drafted = rise(EAGLE, ServingOptions("decode", acceptance=1.0))
    assert drafted.decode_tokens == pytest.approx(plain.decode_tokens / 4)
