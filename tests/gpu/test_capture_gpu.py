"""The capture worker on a real GPU: `pytest -m gpu tests/gpu`. Skipped where there is none.

Drafts alone: `pytest -m gpu tests/gpu -k draft`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from services.capture.attention.choose import agrees, choose_attention
from services.capture.attention.flash import FlashAttention
from services.capture.attention.flashinfer import FlashinferAttention, flashinfer_supported
from services.capture.correctness import check_size
from services.capture.draft_correctness import check_draft
from services.capture.pool import capture_list, measure, replay_lists
from services.capture.readings import Progress
from services.capture.replay_job import ReplayJob, ReplayStep, ReplayWindow, plain_list
from services.capture.spec import DraftShape, MeasureSpec, family_spec
from services.capture.strategies.choose import make_strategy
from services.capture.strategies.full import CudaGraphStrategy
from tests.services.capture.programs import (
    DraftConformance,
    PrefillConformance,
    StrategyConformance,
    VerifyConformance,
    decode_step,
    draft_step,
)
from tuner.probe_plan import ProbePlan
from workloads.models.config import load_config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SPEC = MeasureSpec(
    "tiny-llama",
    sizes=(1, 2, 4, 8, 16, 32, 64),
    fallback_sizes=(96,),
    prefill_tokens=(16, 128),
    prefixes=(0, 64),
    contexts=(64, 256, 512),
    repeats=3,
    device="cuda",
)


class TestEager(StrategyConformance):
    strategy: ClassVar[str] = "eager"
    device: ClassVar[str] = "cuda"


class TestFull(StrategyConformance):
    strategy: ClassVar[str] = "full"
    device: ClassVar[str] = "cuda"

    def test_graphs_are_real_and_share_one_pool(self) -> None:
        step = decode_step("cuda", rows=64)
        strategy = self.make(step)
        assert isinstance(strategy, CudaGraphStrategy)
        reserved = []
        for size in (64, 32, 16, 8):
            strategy.prepare(size)
            torch.cuda.empty_cache()
            reserved.append(torch.cuda.memory_reserved())
        assert reserved[-1] - reserved[0] <= 4 * 2**20, "smaller graphs fit into the memory of the largest"
        strategy.close()


class TestPiecewise(StrategyConformance):
    strategy: ClassVar[str] = "piecewise"
    device: ClassVar[str] = "cuda"


class TestBreakable(StrategyConformance):
    strategy: ClassVar[str] = "breakable"
    device: ClassVar[str] = "cuda"


class TestVerifyFull(VerifyConformance):
    strategy: ClassVar[str] = "full"
    device: ClassVar[str] = "cuda"


class TestVerifyPiecewise(VerifyConformance):
    strategy: ClassVar[str] = "piecewise"
    device: ClassVar[str] = "cuda"


class TestDraftFull(DraftConformance):
    strategy: ClassVar[str] = "full"
    device: ClassVar[str] = "cuda"


class TestPrefillPiecewise(PrefillConformance):
    strategy: ClassVar[str] = "piecewise"
    device: ClassVar[str] = "cuda"


class TestPrefillBreakable(PrefillConformance):
    strategy: ClassVar[str] = "breakable"
    device: ClassVar[str] = "cuda"


@pytest.mark.parametrize("packed", [False, True])
def test_flash_takes_several_queries_a_row(packed: bool) -> None:
    config, device = load_config("qwen3-0.6b"), torch.device("cuda")
    assert agrees(FlashAttention, config, torch.bfloat16, device, packed=packed, tokens_per_row=4)


def test_the_length_aware_attention_is_used_for_the_public_shapes() -> None:
    for name in ("llama-3.1-8b", "qwen3-0.6b"):
        backend = choose_attention(load_config(name), torch.bfloat16, torch.device("cuda"), "flash")
        assert backend is FlashAttention


@pytest.mark.parametrize("packed", [False, True])
def test_flash_reads_rows_where_they_are(packed: bool) -> None:
    assert agrees(FlashAttention, load_config("qwen3-0.6b"), torch.bfloat16, torch.device("cuda"), packed=packed)


@pytest.mark.filterwarnings("default")  # flashinfer warns while it is imported and compiled
@pytest.mark.parametrize("packed", [False, True])
def test_flashinfer_reads_pages_where_they_are(packed: bool) -> None:
    config, device = load_config("qwen3-0.6b"), torch.device("cuda")
    if not flashinfer_supported(config, torch.bfloat16, device):
        pytest.skip("flashinfer is not installed")
    assert agrees(FlashinferAttention, config, torch.bfloat16, device, packed=packed)
    assert choose_attention(config, torch.bfloat16, device) is FlashinferAttention


@pytest.mark.parametrize("use_ray", [False, True])
def test_a_tiny_profile(use_ray: bool) -> None:
    told: list[Progress] = []
    measurement = measure(SPEC, told.append, use_ray=use_ray)
    assert measurement.failures == ()
    family = measurement.profile.family("decode_full")
    assert tuple(family.sizes) == SPEC.all_sizes
    assert (family.replay_ms < family.fallback_ms).all(), "a tiny model is bound by launches"
    assert measurement.profile.device is not None and measurement.profile.device["kind"] == "cuda"
    order = [p.size for p in told if p.phase == "capture" and p.seconds is not None and p.start == 0]
    assert order == [64, 32, 16, 8, 4, 2, 1, 96]
    assert family.pool_mib > 0
    report = measurement.reports[0]
    assert all(reading.preparation.instantiate_s > 0 for reading in report.readings)
    assert {"build", "attention", "capture", "check", "time", "fallback", "profile", "step_model", "prefill"} <= set(
        report.phase_s
    )
    assert all(sample.sm_mhz > 0 for sample in report.device_log)
    assert report.busy and all(0 < busy.busy_ms <= 1.1 * busy.run_ms and busy.launch_bound for busy in report.busy)


def test_few_probes_on_a_gpu() -> None:
    plan = ProbePlan(candidates=tuple(range(1, 65)), most_probes=14)
    spec = replace(SPEC, sizes=(1, 8, 64), probing=plan, fallback_sizes=(), contexts=(), prefill_tokens=())
    first, second = measure(spec).reports
    assert first.probing is not None and len(first.probing.sizes) <= 14
    assert set(second.step_ms()) == set(first.probing.sizes) == set(second.marginal_mib)


@pytest.fixture
def no_leak() -> Iterator[None]:
    torch.cuda.empty_cache()
    before, _ = torch.cuda.mem_get_info()
    yield
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    assert before - after < 64 * 2**20


@pytest.mark.usefixtures("no_leak")
def test_draft_graphs_give_their_memory_back() -> None:
    step = draft_step("cuda", rows=64, topk=4, num_steps=4)
    strategy = make_strategy("full", step, step.decoder.device, warmup=1)
    for size in (64, 16, 1):
        strategy.prepare(size)
        assert check_draft(step, strategy, size).same_as_eager
    strategy.close()


def test_a_tiny_draft_profile() -> None:
    spec = family_spec(replace(SPEC, starts=1), "draft", draft=DraftShape(topk=4, num_steps=3))
    measurement = measure(spec)
    assert measurement.failures == ()
    cost = measurement.profile.family("draft")
    assert cost.unit == "requests" and (cost.replay_ms < cost.fallback_ms).all()
    assert measurement.reports[0].step_model is not None


@pytest.mark.usefixtures("no_leak")
def test_a_list_in_a_fresh_worker_leaves_nothing_here() -> None:
    report = capture_list(SPEC, (48, 3))
    assert set(report.step_ms()) == {3, 48}
    assert report.pool_mib + sum(report.marginal_mib.values()) > 0


def test_a_list_is_replayed_on_ragged_steps_through_its_graphs() -> None:
    steps = (ReplayStep(1, 300), ReplayStep(7, 2000), ReplayStep(40, 9000, 3.0), ReplayStep(70, 700))
    job = ReplayJob(SPEC, (plain_list("one", (1, 8, 64)),), (ReplayWindow("w", steps),), repeats=2)
    report = replay_lists(job)
    (pair,) = report.pairs
    assert list(report.size_s) == [64, 8, 1] and report.failures == () and report.memory_mib > 0
    assert pair.hit_rate == pytest.approx(5 / 6) and pair.mean_step_ms is not None
    eager = next(case for case in report.cases if case.bucket == 0)
    graphs = [case for case in report.cases if case.bucket]
    assert all(case.step_ms < eager.step_ms for case in graphs), "a tiny model is bound by launches"


@pytest.mark.filterwarnings("default")  # torch.compile warns about itself
@pytest.mark.parametrize("strategy", ["compiled", "reduce-overhead"])
def test_compiled_code_is_right_or_refused_with_a_reason(strategy: str) -> None:
    """Graph trees capture a forward that writes its cache in place only in some versions of torch."""
    step = decode_step("cuda", model="tiny-llama")
    compiled = make_strategy(strategy, step, step.decoder.device, warmup=1)
    try:
        compiled.prepare(8)
    except RuntimeError as error:
        assert strategy == "reduce-overhead" and "refused to capture" in str(error)
        pytest.skip(str(error))
    check = check_size(step, compiled, 8)
    assert check.error <= 1.5 * check.eager_error + 1e-2
    compiled.close()
