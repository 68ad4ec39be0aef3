"""Shared fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def public_traces() -> Path:
    """Public traces kept beside the checkout; tests that use them skip where they are absent."""
    if not (SHARED / "traces").is_dir():
        pytest.skip("public traces are not on this machine")
    return SHARED / "traces"
