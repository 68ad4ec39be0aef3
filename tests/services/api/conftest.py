"""An API over a real store, called in process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from db.store import Store
from services.api.app import create_app
from services.settings import Settings
from tests.stores import cost_profile, database_url, store

__all__ = ["api", "database_url", "profile_id", "settings", "store"]


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    base = Settings(database_url, tmp_path / "data")
    return replace(base, max_upload_bytes=2 * 1024 * 1024, parse_timeout_s=20.0, lease_s=5.0)


@pytest.fixture
def api(settings: Settings, store: Store) -> Iterator[TestClient]:
    with TestClient(create_app(settings, store)) as client:
        yield client


@pytest.fixture
def profile_id(store: Store) -> str:
    """A stored profile of 128 sizes with inversions."""
    return store.profiles.add(cost_profile(largest=128)).id
