"""Few probes: the bound holds where readings stay within the optimism, and the list found is as good as promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.probe_plan import ProbePlan, first_probes
from tuner.probing import LEAST_OPTIMISM, LIST_LENGTH, Advice, advise, optimism_of
from tuner.profile_file import read_profile
from workloads.errors import BadUsage

PROFILES = [
    Path(__file__).parents[2] / "profiles" / f"{name}.json" for name in ("h200-llama-3.1-8b", "h200-qwen3-0.6b")
]


def settle(truth: dict[int, float], plan: ProbePlan) -> tuple[dict[int, float], Advice]:
    """Read the truth until the advice is to stop."""
    candidates = np.array(plan.candidates)
    nearest = {int(candidates[np.abs(candidates - size).argmin()]) for size in first_probes(plan.candidates[-1])}
    measured = {size: truth[size] for size in nearest}
    while (advice := advise(measured, plan)).probes:
        assert not set(advice.probes) & set(measured), "nothing is read twice"
        measured |= {size: truth[size] for size in advice.probes}
    return measured, advice


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_tenth_of_a_recorded_curve_is_enough_for_its_best_list(path: Path) -> None:
    cost = read_profile(path).family("decode_full")
    covered = cost.sizes <= 512
    truth = dict(zip(cost.sizes[covered].tolist(), cost.bucket_ms()[covered].tolist(), strict=True))
    plan = ProbePlan(tuple(truth))
    measured, advice = settle(truth, plan)
    assert advice.gap <= plan.tolerance and len(measured) <= 72 < len(truth)
    everything = advise(truth, plan)
    # The bound rests on the optimism, and curves that were read with noise exceed that now and then.
    assert advice.mean_ms <= everything.mean_ms * (1 + 1.5 * plan.tolerance)


@settings(max_examples=25, deadline=None)
@given(
    base=st.floats(1, 20), slope=st.floats(0.001, 0.05), steps=st.lists(st.floats(0, 0.5), max_size=6), shape=st.data()
)
def test_the_list_is_within_the_tolerance_of_the_best_where_the_bound_held(
    base: float, slope: float, steps: list[float], shape: st.DataObject
) -> None:
    end = 128
    at = [shape.draw(st.integers(1, end)) for _ in steps]
    truth = {n: base + slope * n + sum(h for h, k in zip(steps, at, strict=True) if n > k) for n in range(1, end + 1)}
    plan = ProbePlan(tuple(truth), tolerance=0.02)
    _, advice = settle(truth, plan)
    best = advise(truth, plan)
    assert best.gap == 0 and not best.probes and best.mean_ms == pytest.approx(best.bound_ms)
    assert advice.mean_ms >= best.mean_ms - 1e-9
    if advice.bound_ms <= best.mean_ms:
        assert advice.mean_ms <= best.mean_ms * 1.02 + 1e-9


def test_probes_go_where_the_workload_is() -> None:
    truth = {n: 5 + 0.02 * n + 3 * (n > 200) + 2 * (n > 96) for n in range(1, 513)}
    plan = ProbePlan(tuple(truth), sizes=tuple(range(90, 131)), weights=(1.0,) * 41)
    measured, advice = settle(truth, plan)
    new = set(measured) - set(first_probes(512))
    assert new and all(64 <= size <= 160 for size in new)
    assert len(advice.sizes) <= LIST_LENGTH


def test_the_number_of_probes_is_bounded() -> None:
    rng = np.random.default_rng(3)
    truth = {n: float(5 + rng.uniform(0, 5)) for n in range(1, 257)}
    measured, advice = settle(truth, ProbePlan(tuple(truth), most_probes=30))
    assert len(measured) == 30 and advice.gap > 0.01, "the gap that is left is said, not hidden"


def test_optimism_is_what_readings_show() -> None:
    sizes = np.array([1, 2, 3, 4, 5])
    assert optimism_of(sizes, np.array([1.0, 2.0, 3.0, 4.0, 5.0])) == LEAST_OPTIMISM
    assert optimism_of(sizes, np.array([2.0, 2.0, 1.0, 2.0, 2.0])) > 0.1
    assert optimism_of(sizes[:2], np.array([1.0, 2.0])) > 0


def test_the_first_probes_are_coarse_and_reach_the_end() -> None:
    assert first_probes(512) == (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
    assert first_probes(100)[-1] == 100 and first_probes(1) == (1,)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sizes": (1, 2), "weights": (1.0,)}, "weights"),
        ({"sizes": (1,), "weights": (0.0,)}, "weights"),
        ({"sizes": (9,), "weights": (1.0,)}, "sizes"),
        ({"tolerance": 0.0}, "tolerance"),
    ],
)
def test_an_impossible_plan_is_refused(change: dict[str, object], field: str) -> None:
    with pytest.raises(BadUsage) as caught:
        ProbePlan(candidates=(1, 8), **change)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_the_end_of_the_curve_comes_first() -> None:
    with pytest.raises(BadUsage, match="8, must be measured first"):
        advise({1: 1.0}, ProbePlan(candidates=(1, 8)))
