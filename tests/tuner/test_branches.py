"""The published bistability, in the equation and in the simulation: sglang#33483, 32 requests a second on one L40."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.branches import branches, settled_batch
from workloads.serving.limits import SchedulerLimits
from workloads.serving.simulate import simulate
from workloads.serving.step_time import StepTime
from workloads.traces.records import RequestTrace, StepTrace

RATE, TOKENS = 32.0, 128
COVERED_MS, FALLBACK_MS = 23 / RATE / TOKENS * 1e3, 67 / RATE / TOKENS * 1e3
LARGEST = 512


def step_ms(last_size: int) -> np.ndarray:
    n = np.arange(LARGEST + 1)
    return np.where(n <= last_size, COVERED_MS, FALLBACK_MS)


def test_both_branches_solve_the_equation_and_their_ratio_is_that_of_the_step_times() -> None:
    found = branches(step_ms(32), RATE, TOKENS)
    low, high = found.settled
    assert low == pytest.approx(RATE * TOKENS * COVERED_MS * 1e-3, abs=1)
    assert high == pytest.approx(RATE * TOKENS * FALLBACK_MS * 1e-3, abs=1)
    assert high / low == pytest.approx(FALLBACK_MS / COVERED_MS, rel=0.05)
    assert found.thresholds == (32,)


def test_the_load_at_which_the_list_tips_over_is_named() -> None:
    found = branches(step_ms(32), RATE, TOKENS)
    assert found.tip_load == pytest.approx(32 / 23) and found.tips_from == 32 and found.tips_to == 94
    loads = np.array([1.0, 1.39, 1.40])
    assert settled_batch(step_ms(32), RATE, TOKENS, loads).tolist() == [24.0, 32.0, 94.0]
    covered = branches(step_ms(128), RATE, TOKENS)
    assert covered.settled == (24,) and covered.thresholds == () and covered.tip_load == pytest.approx(128 / 23)


def test_a_batch_that_never_keeps_up_fills_the_engine() -> None:
    found = branches(step_ms(32), RATE * 40, TOKENS)
    assert found.settled == (LARGEST,)


def simulated(last_size: int, seed: int) -> StepTrace:
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(1 / RATE, 6000))
    trace = RequestTrace(arrival_s - arrival_s[0], np.full(6000, 200), np.full(6000, TOKENS + 1))
    times = StepTime(step_ms(last_size).astype(np.float64), 0.0, 0.0, np.empty(0), np.empty(0))
    return simulate(trace, "decode", SchedulerLimits(LARGEST), times).steps


def median(steps: StepTrace, begin_s: float, end_s: float = 180.0) -> float:
    rows = (steps.start_s >= begin_s) & (steps.start_s < end_s)
    return float(np.median(np.repeat(steps.size[rows], steps.steps[rows])))


@pytest.mark.parametrize("seed", range(5))
def test_the_simulation_flips_once_and_does_not_recover(seed: int) -> None:
    covered, uncovered = simulated(128, seed), simulated(32, seed)
    assert median(covered, 20.0) == pytest.approx(23, abs=2)
    assert median(uncovered, 60.0) == pytest.approx(67, rel=0.05)
    low = (uncovered.size <= 32) & (uncovered.start_s < 180)
    assert uncovered.start_s[low].max() < 60  # two minutes of traffic later it has not come back
    assert median(uncovered, 90.0) / median(covered, 90.0) == pytest.approx(FALLBACK_MS / COVERED_MS, rel=0.1)
