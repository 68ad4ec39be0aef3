"""Logs of the long-running processes: one line an event, on stderr, as text or (CAPTUNE_LOG_FORMAT=json) as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """Every event as one JSON object; `fields` (the sweep that a process works on) stand in each."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event = {"at": at, "level": record.levelname, "logger": record.name, "event": record.getMessage()}
        if record.exc_info:
            event["trace"] = self.formatException(record.exc_info)
        return json.dumps({**event, **self._fields})


def log_to_stderr(**fields: str) -> None:
    """Everything of ours from INFO up; libraries only when something is wrong.

    Args:
        fields: what every JSON line shall say beside the event, such as `sweep`.
    """
    handler = logging.StreamHandler(sys.stderr)
    if os.environ.get("CAPTUNE_LOG_FORMAT") == "json":
        handler.setFormatter(JsonLines(fields))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("captune").setLevel(logging.INFO)
