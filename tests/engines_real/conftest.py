"""Sources of released packages, downloaded once a run (CAPTUNE_ENGINE_SOURCES keeps them in a folder)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engines_real.packages import sources


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("CAPTUNE_ENGINE_SOURCES")
    return Path(kept) if kept else tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="session")
def vllm_sources(engine_folder: Path) -> dict[str, Path]:
    from tests.engines_real.check_vllm import VERSIONS

    return {version: sources("vllm", version, engine_folder) for version in VERSIONS}


@pytest.fixture(scope="session")
def sglang_sources(engine_folder: Path) -> dict[str, Path]:
    from tests.engines_real.check_sglang import VERSIONS

    return {version: sources("sglang", version, engine_folder) for version in VERSIONS}
