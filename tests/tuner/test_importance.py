"""Importance tells a parameter that matters from one that does not, and says nothing where it cannot."""

from __future__ import annotations

import numpy as np

from tuner.importance import LEAST_TRIALS, importance


def tried(count: int) -> list[tuple[dict[str, float], float]]:
    random = np.random.default_rng(3)
    points = []
    for _ in range(count):
        params = {"list_length": int(random.integers(1, 64)), "price_ms": float(random.random())}
        points.append((params, 10.0 - 0.1 * params["list_length"]))
    return points


def test_the_parameter_that_moves_the_objective_has_the_larger_share() -> None:
    shares = importance(tried(1_000))
    assert shares["list_length"] > 0.8
    assert sum(shares.values()) == 1.0 or abs(sum(shares.values()) - 1.0) < 1e-9


def test_too_few_trials_and_fixed_parameters_give_nothing() -> None:
    assert importance(tried(LEAST_TRIALS - 1)) == {}
    assert importance([]) == {}
    assert importance([({}, 1.0)] * 50) == {}
    assert importance([({"list_length": 4}, float(i)) for i in range(50)]) == {}
