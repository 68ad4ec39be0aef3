"""Logs of the long-running processes: one line an event, on stderr."""

from __future__ import annotations

import logging
import sys


def log_to_stderr() -> None:
    """Everything of ours from INFO up; libraries only when something is wrong."""
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("captune").setLevel(logging.INFO)
