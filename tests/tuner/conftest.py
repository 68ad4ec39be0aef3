"""Fixtures of the decision."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tuner.curves import SIZES, family
from tuner.cost_profile import CostProfile, PrefillCost


@pytest.fixture(scope="session")
def profile() -> CostProfile:
    tokens = np.array([128.0, 512.0, 2048.0, 8192.0])
    prefill = PrefillCost(tokens, np.zeros(4), 8.0 + 0.02 * tokens)
    return CostProfile(
        "h200-like", {"decode_full": family(SIZES.copy())}, prefill, {"name": "synthetic"}, recorded_at="2025-01-01"
    )
