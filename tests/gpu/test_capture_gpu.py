"""The capture worker on a real GPU: `pytest -m gpu tests/gpu`. Skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch

from services.capture.attention.choose import choose_attention
from services.capture.attention.flash import FlashAttention
from services.capture.pool import capture_list, measure
from services.capture.readings import Progress
from services.capture.spec import MeasureSpec
from services.capture.strategies.full import CudaGraphStrategy
from tests.services.capture.programs import StrategyConformance, decode_step
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


def test_the_length_aware_attention_is_used_for_the_public_shapes() -> None:
    for name in ("llama-3.1-8b", "qwen3-0.6b"):
        backend = choose_attention(load_config(name), torch.bfloat16, torch.device("cuda"))
        assert backend is FlashAttention


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


@pytest.fixture
def no_leak() -> Iterator[None]:
    torch.cuda.empty_cache()
    before, _ = torch.cuda.mem_get_info()
    yield
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    assert before - after < 64 * 2**20


@pytest.mark.usefixtures("no_leak")
def test_a_list_in_a_fresh_worker_leaves_nothing_here() -> None:
    report = capture_list(SPEC, (48, 3))
    assert set(report.step_ms()) == {3, 48}
    assert report.pool_mib + sum(report.marginal_mib.values()) > 0
