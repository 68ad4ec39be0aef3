"""Few sizes, the right ones: a computed card whose curve has stairs and an inversion, as one GPU showed them."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import numpy as np
import pytest

from services.capture.probes import tasks
from services.capture.probes.step_terms import StepTerms, TermPoint, fit_terms
from services.capture.probes.step_time import StepProtocol, StepTiming
from tests.services.capture.probes.virtual import Costs, VirtualEngine
from tuner.probe_plan import ProbePlan
from tuner.probing import advise

STAIRS = (64, 5.0), (128, 5.8), (192, 6.7), (256, 7.8), (288, 9.9), (400, 10.4), (432, 14.5), (448, 18.4), (496, 14.9)
CANDIDATES = tasks.probe_candidates(512)
ROOM = tasks.Room(longest_tokens=8192, kv_tokens=547_824)
CONTEXT_TOKENS = 256


class Card(Costs):
    """vLLM 0.23 on an H200, by the largest size of every stair, decode steps of Llama-3.1-8B."""

    def bucket_ms(self, bucket: int) -> float:
        return next((ms for end, ms in STAIRS if bucket <= end), 16.2)


def card(captured: tuple[int, ...], start: int = 0) -> VirtualEngine:
    costs = Card(attention_ms_per_mtoken=27.0, row_ms=0.0, arrival_ms=0.3, jitter_ms=2.0, kv_tokens=547_824)
    return VirtualEngine(costs, captured, start, Path("/dev/null"))


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
    assert sizes == tasks.CoarseSizes(captured=(1, 16, 128), eager=(192, 256, 384, 512))
    engine = card(sizes.captured)
    read = tasks.price_steps(engine, sizes, 1024, ROOM, StepProtocol(), lambda what: None)
    in_graph = [t for t in read["steps"] if t.rows <= 128]
    points = [
        TermPoint(min(s for s in sizes.captured if s >= t.rows), t.rows, t.context_tokens, t.step_ms) for t in in_graph
    ]
    terms = fit_terms(points)
    assert terms.attention_ms_per_mtoken == pytest.approx(27.0, rel=0.03) and terms.row_ms < 0.0015
    assert max(t.rows * t.context_tokens for t in in_graph) > 0.4 * ROOM.kv_tokens  # type: ignore[operator]
    eager = [t for t in read["steps"] if t.rows > 128]
    assert tuple(t.rows for t in eager) == sizes.eager
    assert [t.step_ms for t in eager] == pytest.approx(
        [engine.costs.step_ms(t.rows, t.context_tokens, sizes.captured, 0) for t in eager], rel=0.02
    )
    assert max(t.rows * t.context_tokens for t in eager) <= 196_608  # they would take seconds to prefill


@pytest.mark.parametrize("largest", [1, 2, 3, 8, 16, 64, 250])
def test_coarse_sizes_of_small_engines(largest: int) -> None:
    sizes = tasks.coarse_sizes(tasks.probe_candidates(largest))
    assert sizes.captured[0] == 1 and len(sizes.eager) <= 4
    assert all(size > sizes.captured[-1] for size in sizes.eager)
    assert largest <= 4 or sizes.eager[-1] == largest
