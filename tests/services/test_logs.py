"""Structured logs: every event is one JSON object on stderr, with the sweep that the process works on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CODE = """
import logging
from services.logs import log_to_stderr
log_to_stderr(sweep="abc")
log = logging.getLogger("captune.test")
log.info("two\\nlines %d", 7)
try:
    1 / 0
except ZeroDivisionError:
    log.exception("it broke")
"""


def test_an_event_is_one_line_that_a_program_can_read() -> None:
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"CAPTUNE_LOG_FORMAT": "json"}
    ran = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, cwd=root, capture_output=True, text=True, check=True
    )
    first, second = (json.loads(line) for line in ran.stderr.splitlines())
    assert (first["event"], first["sweep"], first["level"]) == ("two\nlines 7", "abc", "INFO")
    assert second["event"] == "it broke" and "ZeroDivisionError" in second["trace"]
