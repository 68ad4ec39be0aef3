"""Logs of the long-running processes: one line an event, on stderr, as text or (CAPTUNE_LOG_FORMAT=json) as JSON.

What an event belongs to (sweep, trial, request, worker) is said once, around the work, and stands in every line:

    with logged(sweep=claim.sweep_id):
        log.info("started")          # ... INFO captune.runner started [sweep=3f2a90b1c7d4]
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType

FORMAT = "CAPTUNE_LOG_FORMAT"

_FIELDS: ContextVar[Mapping[str, str]] = ContextVar("log_fields", default=MappingProxyType({}))
_process: dict[str, str] = {}


def fields() -> dict[str, str]:
    """What events of this process, thread or request say now beside their message."""
    return {**_process, **_FIELDS.get()}


@contextmanager
def logged(**values: object) -> Iterator[None]:
    """Events inside say these fields too."""
    token = _FIELDS.set({**_FIELDS.get(), **{name: str(value) for name, value in values.items()}})
    try:
        yield
    finally:
        _FIELDS.reset(token)


class JsonLines(logging.Formatter):
    """Every event as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event = {"at": at, "level": record.levelname, "logger": record.name, "event": record.getMessage()}
        if record.exc_info:
            event["trace"] = self.formatException(record.exc_info)
        return json.dumps({**event, **fields()})


class TextLines(logging.Formatter):
    """Every event as one line of text; line breaks in a message, and those of a traceback, are marked."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        said = " ".join(f"{name}={value}" for name, value in fields().items())
        line = super().format(record).replace("\n", " | ")
        return f"{line} [{said}]" if said else line


def log_to_stderr(**values: object) -> None:
    """Everything of ours from INFO up; libraries only when something is wrong.

    Args:
        values: what every event of this process shall say, such as `sweep`.
    """
    _process.update({name: str(value) for name, value in values.items()})
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if os.environ.get(FORMAT) == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("captune").setLevel(logging.INFO)
