"""`captune profile from-log`: the log, its engine and its list, put together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.cli.options import choose_engine, given_lists
from tuner.audit import engine_of, options_of
from tuner.engines.base import Engine, Lists
from tuner.recorded_profile import RecordedProfile, has_step_times, profile_from_log
from workloads.errors import BadInput, BadUsage
from workloads.traces.read import read
from workloads.traces.records import ReadResult

TIMED_FORMATS = {"vllm": ("vllm-iterations", "vllm-batchsize-times")}
"""Formats of an engine's log that give step times, best first: a log that has several is recognised as the one that
says most of sizes."""


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """What the command line says of a log."""

    file: Path
    engine: str | None = None
    sets: tuple[str, ...] = ()
    sizes: str | None = None
    min_readings: int = 5
    device: str | None = None
    model: str | None = None
    name: str | None = None
    format: str | None = None


def profile_of(asked: RecordedLog, *, command: str | None = None) -> RecordedProfile:
    """The profile that a log gives.

    Raises:
        BadInput: no trace, no step times, or too few of them.
        BadUsage: an engine or option that does not exist.
    """
    found = read_timed(asked.file, asked.format)
    engine, options, lists = _engine(asked, found)
    return profile_from_log(
        found,
        source=asked.file.name,
        engine=engine,
        options=options,
        lists=lists,
        name=asked.name,
        device=asked.device,
        model=asked.model,
        min_readings=asked.min_readings,
        command=command,
    )


def read_timed(path: Path, format: str | None = None) -> ReadResult:
    """Read a log, by the format of it that gives the best step times."""
    found = read(path, format=format)
    seen = found.observation.engine if found.observation else None
    if format is not None or seen is None:
        return found
    for other in TIMED_FORMATS.get(seen, ()):
        if other == found.format:
            break
        try:
            timed = read(path, format=other)
        except BadInput:
            continue  # the log has no such lines
        if has_step_times(timed):
            return timed
    return found


def _engine(asked: RecordedLog, found: ReadResult) -> tuple[Engine | None, Any, Lists | None]:
    spec = asked.engine or engine_of(found.observation)
    if spec is None:
        if asked.sizes or asked.sets:
            raise BadUsage("needs --engine: this source does not name its engine", field="--sizes")
        return None, None, None
    try:
        choice = choose_engine(spec, asked.sets)
    except BadUsage:
        if asked.engine is not None or asked.sets:
            raise
        # The log names a version whose rules are not known: its latest rules are the nearest.
        choice = choose_engine(spec.partition("@")[0], ())
    return choice.engine, options_of(found.observation, choice.engine, choice.raw), given_lists(asked.sizes, choice)
