"""A denser ladder that loses, and one that wins: graphs take memory from the KV cache, and finer steps take less time.

The published case (TensorRT-LLM #12895, #13393 on 4 GB200): a ladder of 259 sizes, every 8 up to 2048, in place of 49,
takes 2 to 4.9 GB of graphs more, which is 8.6 to 17.2 % of the KV tokens; throughput falls by 5 % on one model and
rises by 6 to 15 % on others. Memory and KV shares below are the published ones. Step times and request lengths were
not published: one model here is bound by its KV cache (long requests), the other by its batch (short ones).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tuner.curves import family
from tuner.budget import Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile, PrefillCost
from tuner.engines.registry import engine
from tuner.recommendation import ServingOptions
from tuner.service import KvChange, Service, service_of
from workloads.serving.goodput import Slo
from workloads.traces.records import RequestTrace

GPU_GIB, FRACTION = 186.0, 0.9
TRT = engine("tensorrt-llm@1.3")
LARGEST = {"cuda_graph_config.max_batch_size": "2048"}
SPARSE = tuple(TRT.default_lists(TRT.options(LARGEST))["decode"])
DENSE = (1, 2, 4, *range(8, 2049, 8))
CONCURRENCY = 160  # of the load generator: no more requests are ever in flight


def case(extra_gb: float, kv_share: float, kv_bytes: float, *, attention_ms_per_mtoken: float, row_ms: float) -> Case:
    """A model whose dense ladder takes `extra_gb` more and so `kv_share` of the sparse one's KV cache."""
    graph_mib = extra_gb * 1e9 / 2**20 / (len(DENSE) - len(SPARSE))
    sizes = np.array(DENSE)
    cost = family(
        sizes,
        step_ms=9.0 + row_ms * sizes,
        replay_ms=9.0 + row_ms * sizes,
        fallback_ms=30.0 + row_ms * sizes,
        spread_ms=np.zeros(len(sizes)),
        capture_s=np.full(len(sizes), 0.3),
        memory_mib=np.full(len(sizes), graph_mib),
        starts=np.full(len(sizes), 2),
        pool_mib=0.0,
        attention_ms_per_mtoken=attention_ms_per_mtoken,
        row_ms=0.0,
    )
    tokens = np.array([128.0, 1024.0, 8192.0])
    profile = CostProfile("gb200-like", {"decode_full": cost}, PrefillCost(tokens, np.zeros(3), 9.0 + 0.02 * tokens))
    kv_gib = FRACTION * extra_gb * 1e9 / kv_share / 2**30
    weights_gib = GPU_GIB - kv_gib / FRACTION - len(SPARSE) * graph_mib / 1024
    options = TRT.options(
        {
            **LARGEST,
            "gpu_memory_gib": str(GPU_GIB),
            "free_gpu_memory_fraction": str(FRACTION),
            "weights_gib": str(weights_gib),
            "activation_gib": "0",
            "kv_bytes_per_token": str(kv_bytes),
            "enable_chunked_prefill": "true",
        }
    )
    serving = ServingOptions(max_running=CONCURRENCY, slo=Slo(tpot_ms=40.0))
    return Case(TRT, options, profile, serving, Budget(), "step")


def burst(input_tokens: int, output_tokens: int, requests: int = 1500) -> RequestTrace:
    """As many requests as the engine can take, so that throughput is what it sustains."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(output_tokens // 2, output_tokens * 3 // 2, requests)
    return RequestTrace(np.linspace(0.0, 1e-3, requests), np.full(requests, input_tokens), lengths)


def services(of: Case, trace: RequestTrace) -> tuple[Service, Service]:
    """(sparse, dense): both through `Case.observe`, whose simulation runs with the KV cache of its own list."""
    made = []
    for sizes in (SPARSE, DENSE):
        report = of.observe(trace, of.lists_of(sizes)).report
        assert report is not None
        made.append(service_of(of, trace, of.lists_of(sizes), report))
    return made[0], made[1]


def throughput_change(sparse: Service, dense: Service) -> float:
    return dense.report.throughput_tokens_per_s / sparse.report.throughput_tokens_per_s - 1.0


def test_the_ladders_are_those_of_the_published_case() -> None:
    assert (len(SPARSE), len(DENSE)) == (49, 259)


def test_a_model_bound_by_its_kv_cache_loses() -> None:
    bound = case(4.9, 0.172, 70e3, attention_ms_per_mtoken=60.0, row_ms=0.05)
    sparse, dense = services(bound, burst(8000, 1000))
    assert dense.kv_tokens / sparse.kv_tokens - 1 == pytest.approx(-0.172, abs=0.002)
    assert dense.admitted_requests < sparse.admitted_requests < CONCURRENCY
    assert -0.08 < throughput_change(sparse, dense) < -0.02
    change = KvChange(dense.kv, sparse.kv, (None, None), None)
    assert change.moved and "(-17.2%)" in change.sentence


def test_a_model_bound_by_its_batch_wins() -> None:
    free = case(2.0, 0.086, 20e3, attention_ms_per_mtoken=20.0, row_ms=0.08)
    sparse, dense = services(free, burst(1000, 1000))
    assert dense.kv_tokens / sparse.kv_tokens - 1 == pytest.approx(-0.086, abs=0.002)
    assert sparse.admitted_requests == dense.admitted_requests == CONCURRENCY
    assert 0.06 < throughput_change(sparse, dense) < 0.15
    assert dense.report.tpot_mean_ms < sparse.report.tpot_mean_ms
    assert dense.report.goodput_requests_per_s >= sparse.report.goodput_requests_per_s


def test_a_kv_cache_given_by_the_user_stays_whatever_is_captured() -> None:
    bound = case(4.9, 0.172, 70e3, attention_ms_per_mtoken=60.0, row_ms=0.05)
    fixed = replace(bound, serving=replace(bound.serving, kv_tokens=300_000))
    sparse, dense = services(fixed, burst(8000, 200, 200))
    assert sparse.kv_tokens == dense.kv_tokens == 300_000
    assert throughput_change(sparse, dense) >= 0


@pytest.mark.parametrize(
    ("spec", "raw", "words"),
    [
        ("sglang@0.5.23", {}, "stays the same with this list. SGLang reserves by the largest decode size"),
        ("sglang@0.5.23", {}, "To turn the 100 MiB saved into KV cache: set mem_fraction_static higher"),
        ("vllm@0.33.0", {}, "may change with this list: 329 MiB are kept from it instead of 1,220"),
        ("vllm@0.19.0", {}, "To turn the 100 MiB saved into KV cache: a higher gpu_memory_utilization"),
    ],
)
def test_without_the_models_facts_the_rule_and_the_knob_are_named(
    profile: CostProfile, spec: str, raw: dict[str, str], words: str
) -> None:
    chosen = engine(spec)
    of = Case(chosen, chosen.options(raw), profile, ServingOptions(policy="decode"), Budget(), "step")
    own = of.default_lists()
    top = of.sizes_of(own)[-1]
    short = of.lists_of((8, top))
    aside = (of.set_aside_mib(short), of.set_aside_mib(own))
    assert words in KvChange(of.kv(short), of.kv(own), aside, 100.0).sentence
