"""Traffic as histograms: simulated requests, recorded steps, and what does not fit together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tuner.curves import family
from tuner.budget import Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile
from tuner.dispatch import DispatchTable
from tuner.engines.registry import engine
from tuner.profile_file import read_profile
from tuner.recommendation import ServingOptions
from tuner.row_curve import RowCurve
from tuner.traffic import observe, step_time_of
from workloads.errors import BadInput, BadUsage
from workloads.histogram import StepHistogram
from workloads.traces.records import RequestTrace, StepTrace

VLLM = engine("vllm@0.33.0")


def burst(requests: int, output_tokens: int = 20) -> RequestTrace:
    """All at once, so the batch is the number of requests until they end together."""
    full = np.full(requests, output_tokens)
    return RequestTrace(np.zeros(requests), np.full(requests, 10), full)


def steps(counts: dict[int, int], name: str = "decode_full") -> StepTrace:
    rows = len(counts)
    nan = np.full(rows, np.nan)
    return StepTrace(
        np.array(list(counts)),
        np.array(list(counts.values())),
        np.zeros(rows, np.int8),
        nan,
        nan.copy(),
        nan.copy(),
        np.zeros(rows, np.int64),
        np.full(rows, -1, np.int8),
        (name,),
        ("requests",),
        "given",
    )


def with_mixed(decode: dict[int, int], mixed: dict[int, int]) -> StepTrace:
    """vLLM's recorded decode steps, and its mixed ones."""
    one, two = steps(decode), steps(mixed)
    joined = {
        name: np.concatenate((getattr(one, name), getattr(two, name)))
        for name in ("size", "steps", "start_s", "step_ms", "kv_tokens", "padded_size", "fallback")
    }
    family_index = np.repeat(np.array([0, 1], np.int8), [len(one.size), len(two.size)])
    families = ("decode_full", "decode_piecewise")
    return replace(one, **joined, family_index=family_index, families=families, units=("tokens", "tokens"))


def test_a_burst_runs_as_one_batch_of_its_size(profile: CostProfile) -> None:
    seen = observe(burst(40), None, None, profile)
    assert seen.decode.counts() == {40: 19.0}
    assert seen.reachable == 40 and seen.report is not None and seen.report.completed == 40


def test_max_running_and_kv_tokens_replace_the_engines_limits(profile: CostProfile) -> None:
    options = VLLM.options({"max_num_seqs": "512"})
    half = ServingOptions(policy="decode", max_running=20)
    seen = observe(burst(40), VLLM, options, profile, half)
    assert seen.decode.largest == 20 and seen.reachable == 20
    assert observe(burst(40), VLLM, options, profile, ServingOptions(policy="decode")).reachable == 512
    little = observe(burst(40), VLLM, options, profile, ServingOptions(policy="decode", kv_tokens=150))
    assert little.decode.largest == 5  # 30 tokens each


def test_the_lists_own_step_times_run_the_simulation(profile: CostProfile) -> None:
    options = VLLM.options({"max_num_seqs": "512"})
    decode = ServingOptions(policy="decode")
    fast = observe(burst(60), VLLM, options, profile, decode, {"capture": (64,)})
    slow = observe(burst(60), VLLM, options, profile, decode, {"capture": (448,)})
    assert fast.report is not None and slow.report is not None
    gap = profile.family("decode_full").bucket_ms_at(np.array([448, 64]))
    assert slow.report.tpot_mean_ms - fast.report.tpot_mean_ms == pytest.approx(gap[0] - gap[1])


def test_the_engines_policy_makes_its_families(profile: CostProfile) -> None:
    seen = observe(burst(40), VLLM, VLLM.options({"max_num_seqs": "64"}), profile)
    assert set(seen.histograms) == {"decode_full", "decode_piecewise"}


def test_recorded_steps_are_counted_as_they_are() -> None:
    seen = observe(steps({4: 10, 9: 1}), None, None, None)
    assert seen.decode.counts() == {4: 10.0, 9: 1.0}
    assert seen.reachable == 9 and seen.report is None and not seen.notes
    other = observe(steps({4: 10}, "target_verify"), None, None, None, ServingOptions(load=2.0))
    assert other.decode_family == "target_verify" and "--load was not used" in other.notes[0]


def test_lists_are_judged_at_the_contexts_of_their_traffic(repository: Path) -> None:
    """Buckets that are not split wait for the longest row, so a small size is worth more where contexts are long."""
    profile = read_profile(repository / "profiles" / "h200-llama-3.1-8b-flashinfer.json")
    cost, options = profile.family("decode_full"), VLLM.options({"max_num_seqs": "256"})
    for context in (200, 1536, 6000):
        trace = steps({3: 5, 20: 9, 100: 1})
        trace = replace(trace, kv_tokens=(trace.size * context).astype(np.float64))
        case = Case(VLLM, options, profile, ServingOptions(policy="decode"), Budget(), "step")
        seen = case.observe(trace, case.default_lists())
        assert seen.decode.mean_context == pytest.approx(context)
        lists = {"capture": (4, 64, 256)}
        rows = np.array([3, 20, 100])
        exact_ms = cost.in_bucket_ms(np.array([4, 64, 256]), rows, rows * context)
        card = case.at_context_of(seen).score(lists, seen)
        assert card.mean_step_ms == pytest.approx(float(np.array([5, 9, 1]) @ exact_ms) / 15)
    unknown = case.observe(steps({3: 5}), case.default_lists())
    assert unknown.decode.mean_context is None and case.at_context_of(unknown) is case


def test_steps_above_what_the_options_allow_are_said() -> None:
    seen = observe(steps({4: 10, 90: 1}), VLLM, VLLM.options({"max_num_seqs": "64"}), None)
    assert seen.reachable == 64 and "up to 90 were recorded" in seen.notes[0]


def test_requests_need_a_profile() -> None:
    with pytest.raises(BadUsage, match="needs a profile"):
        observe(burst(4), None, None, None)


def test_a_profile_by_requests_does_not_fit_an_engine_that_counts_draft_tokens(profile: CostProfile) -> None:
    options = VLLM.options({"max_num_seqs": "64", "num_speculative_tokens": "3"})
    with pytest.raises(BadInput, match=r"4 tokens per request here, but profile 'h200-like' was measured by requests"):
        observe(burst(4), VLLM, options, profile, ServingOptions(policy="decode"))
    by_tokens = CostProfile("t", {"decode_full": replace(profile.family("decode_full"), unit="tokens")})
    seen = observe(burst(5), VLLM, options, by_tokens, ServingOptions(policy="decode"))
    assert seen.decode.counts() == {20: 19.0} and seen.reachable == 256


def test_a_simulation_that_reaches_an_unknown_time_is_refused_and_one_that_does_not_runs() -> None:
    bare = CostProfile("bare", {"decode_full": family(np.array([2, 4, 8]), fallback_ms=np.full(3, np.nan))})
    assert observe(burst(8), None, None, bare).decode.largest == 8
    with pytest.raises(
        BadInput, match=r"a step of 9, above the last captured size 8, and profile 'bare' has no fallback"
    ):
        observe(burst(9), None, None, bare)


def test_step_times_are_those_of_the_bucket_or_of_the_fallback(profile: CostProfile) -> None:
    cost = profile.family("decode_full")
    times = step_time_of(profile, DispatchTable.plain("decode_full", np.array([8, 64])), "decode_full", 80)
    expected = cost.bucket_ms_at(np.array([8, 64, 64]))
    assert times.decode_ms[[3, 9, 64]] == pytest.approx(expected)
    assert times.decode_ms[70] == pytest.approx(cost.fallback_ms_at(np.array([70]))[0])
    assert times.attention_ms_per_token == pytest.approx(1.2e-6) and times.knows_prefill


def test_what_rows_cost_beyond_a_price_each_is_in_the_time_of_that_many_requests(profile: CostProfile) -> None:
    cost, dispatch = profile.family("decode_full"), DispatchTable.plain("decode_full", np.array([8, 64]))
    curve = RowCurve.of((16, 17), (0.0, 0.5))
    curved = replace(profile, families={"decode_full": replace(cost, row_curve=curve)})
    plain, waves = (step_time_of(of, dispatch, "decode_full", 64) for of in (profile, curved))
    # The bucket of 64 was read full: what 64 rows cost beyond 16 is in it, and is not paid by fewer.
    assert (waves.decode_ms - plain.decode_ms)[[1, 16, 17, 64]] == pytest.approx([0.0, -0.5, 0.0, 0.0])
    assert waves.row_ms == plain.row_ms


def test_histograms_of_recorded_steps_equal_a_hand_count() -> None:
    assert observe(steps({7: 3}), None, None, None).decode.counts() == StepHistogram.of_counts({7: 3.0}).counts()


def test_recorded_requests_become_tokens_where_a_step_verifies_drafts() -> None:
    options = VLLM.options({"max_num_seqs": "64", "num_speculative_tokens": "3"})
    logged = replace(steps({1: 5, 20: 7}), origin="census")
    seen = observe(logged, VLLM, options, None)
    assert seen.decode.counts() == {4: 5.0, 80: 7.0} and seen.decode.unit == "tokens"
    assert any("counted as 4 tokens each" in note for note in seen.notes)
    for as_it_is in (replace(logged, units=("tokens",)), replace(logged, origin="given")):
        assert observe(as_it_is, VLLM, options, None).decode.counts() == {1: 5.0, 20: 7.0}
