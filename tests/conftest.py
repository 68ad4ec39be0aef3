"""Shared fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before anything imports torch, and for every process that a test starts. The models here are tiny: threads that spin
# for each other cost ten times their work on a machine that does something else as well.
os.environ.setdefault("OMP_NUM_THREADS", "1")

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
