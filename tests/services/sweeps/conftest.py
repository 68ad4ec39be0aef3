"""Fixtures of the runner's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.records import NewSweep, StoredSweep
from db.store import Store
from services.settings import Settings
from tests.stores import cost_profile, database_url, read_result, store

__all__ = ["database_url", "settings", "store"]


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url, tmp_path / "data", lease_s=3.0)


def queue_sweep(store: Store, trials: int = 12, **changes: object) -> StoredSweep:
    """A job over a small simulated workload."""
    trace = store.traces.add(read_result(300), "day.csv")
    profile = store.profiles.add(cost_profile(largest=64))
    asked: dict[str, object] = {
        "trace_id": trace.id,
        "engine": "vllm@0.33.0",
        "profile": profile.id,
        "options": {"max_num_seqs": "64"},
        "serving": {"policy": "decode", "load": 2.0},
        "budget": {"regret": 0.1},
        "trials": trials,
    }
    return store.sweeps.create(NewSweep(**{**asked, **changes}))  # type: ignore[arg-type]
