"""Stores for tests: every test that takes `store` runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from db.store import Store
from tests.postgres import fresh_database
from tuner.cost_profile import CostProfile
from tuner.profile_file import parse_profile
from workloads.traces.records import ReadResult, RequestTrace, RowCount


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    sqlite = nullcontext(f"sqlite:///{tmp_path / 'captune.db'}")
    with sqlite if request.param == "sqlite" else fresh_database() as url:
        yield url


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[Store]:
    with Store(database_url, tmp_path / "data") as opened:
        yield opened


def request_trace(requests: int = 400, seed: int = 1, rate_per_s: float = 8.0) -> RequestTrace:
    """Poisson arrivals with log-normal lengths."""
    random = np.random.default_rng(seed)
    arrival_s = np.cumsum(random.exponential(1 / rate_per_s, requests))
    return RequestTrace(
        arrival_s - arrival_s[0],
        np.maximum(1, random.lognormal(6, 1, requests)).astype(np.int64),
        np.maximum(1, random.lognormal(4.5, 0.8, requests)).astype(np.int64),
    )


def read_result(requests: int = 400, seed: int = 1) -> ReadResult:
    """A file with one bad row, as its reader would give it."""
    rows = RowCount(requests + 1, requests, {"no output": 1}, {"no output": 7})
    return ReadResult("requests", "requests", rows, request_trace(requests, seed), notes=("made by a test",))


def cost_profile(name: str = "bench", largest: int = 64) -> CostProfile:
    """A curve with an inversion at every ninth size and slow steps without a graph."""
    points = []
    for size in range(1, largest + 1):
        step_ms = 6.0 + 0.03 * size + (1.0 if size % 9 == 0 else 0.0)
        point = {"size": size, "step_ms": step_ms, "fallback_ms": 14.0 + 0.02 * size, "spread_ms": 0.02, "starts": 3}
        points.append(point | {"capture_s": 0.05, "memory_mib": 2.0})
    document = {
        "schema": 1,
        "name": name,
        "device": {"name": "NVIDIA Test"},
        "model": {"name": "test-8b"},
        "recorded_at": "2026-01-01T00:00:00+00:00",
        "starts": 3,
        "families": {"decode_full": {"unit": "requests", "points": points}},
        "prefill": {"points": [{"tokens": t, "step_ms": 2 + t * 0.02} for t in (128, 1024, 8192)]},
    }
    return parse_profile(json.dumps(document))
