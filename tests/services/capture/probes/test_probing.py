"""Few sizes, the right ones: a computed card whose curve has stairs and an inversion, as one GPU showed them."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import numpy as np
import pytest

from services.capture.probes import tasks
from services.capture.probes.attention_waves import wave_rows
from services.capture.probes.step_terms import StepTerms, TermPoint, fit_terms
from services.capture.probes.step_time import StepProtocol, StepTiming
from tests.services.capture.probes.virtual import Costs, VirtualEngine, WaveCosts
from tuner.probe_plan import ProbePlan
from tuner.probing import advise

STAIRS = (64, 5.0), (128, 5.8), (192, 6.7), (256, 7.8), (288, 9.9), (400, 10.4), (432, 14.5), (448, 18.4), (496, 14.9)
CANDIDATES = tasks.probe_candidates(512)
ROOM = tasks.Room(longest_tokens=8192, kv_tokens=547_824)
LARGE_ROOM = tasks.Room(longest_tokens=40_000, kv_tokens=920_000)
CONTEXT_TOKENS = 256


class Card(Costs):
    """vLLM 0.23 on an H200, by the largest size of every stair, decode steps of Llama-3.1-8B."""

    def bucket_ms(self, bucket: int) -> float:
        return next((ms for end, ms in STAIRS if bucket <= end), 16.2)


def card(captured: tuple[int, ...], start: int = 0) -> VirtualEngine:
    costs = Card(attention_ms_per_mtoken=27.0, row_ms=0.0, arrival_ms=0.3, jitter_ms=2.0, kv_tokens=547_824)
    return VirtualEngine(costs, captured, start, Path("/dev/null"))


class SmoothCard(WaveCosts):
    """Buckets as the same GPU showed them once waves of attention are taken off: hardly any stairs up to 64."""

    def bucket_ms(self, bucket: int) -> float:
        return float(np.interp(bucket, (1, 16, 32, 64, 96, 128, 256, 512), (4.8, 4.95, 5.05, 5.25, 6, 6.5, 8.5, 16)))


def smooth_card(captured: tuple[int, ...], start: int) -> VirtualEngine:
    costs = SmoothCard(attention_ms_per_mtoken=30.0, row_ms=0.0, arrival_ms=0.3, jitter_ms=2.0, kv_tokens=920_000)
    return VirtualEngine(costs, captured, start, Path("/dev/null"))


def fitted(read: tuple[StepTiming, ...], sizes: tasks.CoarseSizes) -> StepTerms:
    within = [t for t in read if t.rows <= sizes.captured[-1]]
    bucket = {t.rows: min(size for size in sizes.captured if size >= t.rows) for t in within}
    return fit_terms([TermPoint(bucket[t.rows], t.rows, t.context_tokens, t.step_ms) for t in within])


def steps_of(mean: float, spread: float, share: float = 1.0) -> dict[int, float]:
    sizes = np.arange(1, 513)
    weights = share * np.exp(-(((sizes - mean) / spread) ** 2) / 2)
    return {int(size): float(weight) for size, weight in zip(sizes, weights, strict=True) if weight > 1e-4}


def found(read: tuple[StepTiming, ...], terms: StepTerms, plan: ProbePlan) -> tuple[int, ...]:
    return advise({t.rows: t.step_ms - terms.extra_ms(t.rows, t.context_tokens) for t in read}, plan).sizes


@pytest.mark.parametrize(("mean", "spread"), [(70.0, 30.0), (330.0, 90.0), (455.0, 30.0)])
def test_two_dozen_sizes_give_a_list_within_one_percent_of_the_best(mean: float, spread: float) -> None:
    steps = steps_of(mean, spread)
    plan = ProbePlan(CANDIDATES, tuple(steps), tuple(steps.values()))
    terms, curve = StepTerms(27.0, 0.0, {}, 0.0, 0.0), Card()
    engine = card(CANDIDATES)
    first = tasks.probe_sizes(engine, plan, terms, CONTEXT_TOKENS, ROOM, StepProtocol(), lambda what: None)
    assert len(first["steps"]) <= 24 and first["failed_cases"] == ()

    best = advise({size: curve.bucket_ms(size) for size in range(1, 513)}, plan)
    sizes = found(first["steps"], terms, plan)
    served_ms = [curve.bucket_ms(sizes[bisect_left(sizes, size)]) for size in steps]
    assert np.average(served_ms, weights=list(steps.values())) < 1.01 * best.mean_ms
    if mean > 300:
        assert 448 not in sizes and {400, 496} <= set(sizes)

    again = tasks.repeated_sizes(first["steps"], plan, terms)
    assert set(sizes) <= set(again) and {1, 512} <= set(again) and len(again) <= 24
    assert len(set(again) - {timing.rows for timing in first["steps"]}) > 5  # sizes that no start has read


def test_one_start_prices_rows_and_tokens_and_reads_steps_without_a_graph() -> None:
    sizes = tasks.coarse_sizes(CANDIDATES)
    assert sizes == tasks.CoarseSizes(captured=(1, 128), eager=(256, 384, 512))
    engine = card(sizes.captured)
    read = tasks.price_steps(engine, sizes, 16, 1024, ROOM, StepProtocol(), lambda what: None)
    in_graph = [t for t in read["steps"] if t.rows <= 128]
    assert len(in_graph) > 30 and all(len(t.readings_ms) == 1 for t in in_graph)
    terms = fitted(read["steps"], sizes)
    assert terms.attention_ms_per_mtoken == pytest.approx(27.0, rel=0.05) and terms.row_ms < 0.0015
    found_ms = [terms.extra_ms(rows, 0) for rows in range(2, 129)]
    assert np.ptp(found_ms) < 0.03 * 5.8  # of a step: there is no curve, and every case was read once
    eager = [t for t in read["steps"] if t.rows > 128]
    assert tuple(t.rows for t in eager) == sizes.eager
    assert [t.step_ms for t in eager] == pytest.approx(
        [engine.costs.step_ms(t.rows, t.context_tokens, sizes.captured, 0) for t in eager], rel=0.02
    )
    assert max(t.rows * t.context_tokens for t in eager) <= 98_304  # they would take seconds to prefill


@pytest.mark.parametrize("seed", [0, 3])
def test_waves_of_attention_are_not_taken_for_stairs_of_buckets(seed: int) -> None:
    captured, steps = tasks.coarse_sizes(CANDIDATES), steps_of(25.0, 20.0)
    curve = SmoothCard(attention_ms_per_mtoken=30.0, row_ms=0.0)
    priced = tasks.price_steps(
        smooth_card(captured.captured, seed), captured, 16, 1536, LARGE_ROOM, StepProtocol(), lambda what: None
    )
    terms = fitted(priced["steps"], captured)
    plan = ProbePlan(CANDIDATES, tuple(steps), tuple(steps.values()))
    read = tasks.probe_sizes(
        smooth_card(CANDIDATES, seed + 1), plan, terms, 1536, LARGE_ROOM, StepProtocol(), lambda what: None
    )["steps"]
    sizes, weights = found(read, terms, plan), list(steps.values())

    def mean_ms(chosen: tuple[int, ...]) -> float:
        return float(np.average([curve.step_ms(rows, 1152, chosen, 0) for rows in steps], weights=weights))

    best = advise({size: curve.bucket_ms(size) for size in range(1, 513)}, plan)
    assert mean_ms(sizes) < 1.01 * mean_ms(best.sizes)

    def off(by: StepTerms, rows: int, chosen: tuple[int, ...], context_tokens: int = 1152) -> float:
        g_ms = {t.rows: t.step_ms - by.extra_ms(t.rows, t.context_tokens) for t in read}
        bucket = min(size for size in chosen if size >= rows)
        predicted_ms = np.interp(bucket, list(g_ms), list(g_ms.values())) + by.extra_ms(rows, context_tokens)
        return float(predicted_ms / curve.step_ms(rows, context_tokens, chosen, 0)) - 1

    sparse, straight = (1, 4, 16, 64, 96, 128), StepTerms(30.0, 0.0, {}, 0.0, 0.0)
    assert np.average([off(terms, rows, sparse) for rows in steps], weights=weights) == pytest.approx(0, abs=0.01)
    assert max(abs(off(terms, rows, sparse, tokens)) for rows in (10, 17, 22, 54) for tokens in (800, 1500)) < 0.05
    assert max(abs(off(straight, rows, sparse)) for rows in (17, 22)) > 0.05  # even with the true price of a KV token


def test_rows_are_read_on_both_sides_of_every_wave() -> None:
    assert wave_rows("NVIDIA H200", 8) == 16 and wave_rows("NVIDIA A100-SXM4-80GB", 8) == 13
    assert wave_rows("NVIDIA H100 PCIe", 4) == 28 and wave_rows(None, 4) == wave_rows("unheard of", 8) == 16
    assert {2, 4, 8, 9, 16, 17, 32, 33, 64, 65, 96, 97, 128} <= set(tasks.priced_rows(128, 16))
    assert {13, 14, 26, 27} <= set(tasks.priced_rows(128, 13))
    assert [tasks.priced_rows(bucket, 16) for bucket in (1, 2, 3)] == [(1,), (2,), (2, 3)]


@pytest.mark.parametrize("largest", [1, 2, 3, 8, 16, 64, 250])
def test_coarse_sizes_of_small_engines(largest: int) -> None:
    sizes = tasks.coarse_sizes(tasks.probe_candidates(largest))
    assert sizes.captured[0] == 1 and len(sizes.eager) <= 3
    assert all(size > sizes.captured[-1] for size in sizes.eager)
    assert largest <= 4 or sizes.eager[-1] == largest
