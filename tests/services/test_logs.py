"""Structured logs: every event is one line on stderr, with the sweep, trial or request that it belongs to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import logging
from services.logs import log_to_stderr, logged
log_to_stderr(sweep="abc")
log = logging.getLogger("captune.test")
with logged(trial=3):
    log.info("two\\nlines %d", 7)
try:
    1 / 0
except ZeroDivisionError:
    log.exception("it broke")
"""


def lines(log_format: str) -> list[str]:
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"CAPTUNE_LOG_FORMAT": log_format}
    ran = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, cwd=root, capture_output=True, text=True, check=True
    )
    return ran.stderr.splitlines()


def test_an_event_is_one_line_that_a_program_can_read() -> None:
    first, second = map(json.loads, lines("json"))
    assert (first["event"], first["sweep"], first["trial"], first["level"]) == ("two\nlines 7", "abc", "3", "INFO")
    assert second["event"] == "it broke" and "ZeroDivisionError" in second["trace"]
    assert second["sweep"] == "abc" and "trial" not in second


def test_an_event_is_one_line_for_people_too() -> None:
    first, second = lines("text")
    assert re.search(r"INFO captune.test two \| lines 7 \[sweep=abc trial=3\]$", first)
    assert "ZeroDivisionError" in second and second.endswith("[sweep=abc]")


def test_a_sweep_and_its_trials_are_named_in_every_line_of_its_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from db.store import Store
    from services.logs import fields, logged
    from services.sweeps.job import run_sweep
    from tests.services.sweeps.conftest import queue_sweep

    said: list[tuple[str, dict[str, str]]] = []
    caplog.handler.addFilter(lambda record: said.append((record.getMessage(), fields())) is None)
    with Store(f"sqlite:///{tmp_path / 'captune.db'}", tmp_path) as store, caplog.at_level("INFO", "captune"):
        sweep = queue_sweep(store, trials=3)
        claim = store.queue.claim("me", 60.0)
        assert claim is not None
        with logged(sweep=sweep.id):
            run_sweep(store, claim, lambda: False)
    trials = [(words, about["sweep"], about["trial"]) for words, about in said if words.startswith("trial ")]
    assert [(about, number) for _, about, number in trials] == [(sweep.id, str(number)) for number in range(3)]
