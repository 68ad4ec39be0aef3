"""Launches of the stand-in engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.capture.probes.base import Launch
from tuner.engines.base import Lists
from tuner.engines.registry import engine

STUB = Path(__file__).with_name("stub_engine.py")

MakeLaunch = Callable[..., Launch]


@pytest.fixture
def launch(tmp_path: Path) -> MakeLaunch:
    """A launch of the stub; keyword arguments other than those of the function change the stub's CONFIG."""

    def make(
        lists: Lists | None = None,
        spec: str = "vllm@0.23.0",
        options: dict[str, str] | None = None,
        ready_s: float = 30.0,
        **stub: Any,
    ) -> Launch:
        seqs = "max_num_seqs" if spec.startswith("vllm") else "max_running_requests"
        return Launch(
            engine=engine(spec),
            raw_options={seqs: "16"} | (options or {}),
            lists=lists,
            model=tmp_path,
            vocabulary=1000,
            command=(sys.executable, str(STUB)),
            environment={"STUB": json.dumps(stub)},
            ready_s=ready_s,
        )

    return make
