"""`--running`: what somebody runs today, as a command line, a configuration file or a start-up log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import EngineChoice, choose_engine
from services.cli.workload import Asked
from tuner.engines.base import Lists
from tuner.engines.importing import Present, import_observation, import_text
from workloads.errors import BadInput, BadUsage

Running = Annotated[
    str | None,
    typer.Option(
        "--running",
        metavar="COMMAND|FILE",
        help="What runs today: a command line in quotes, or a file (script, YAML, compose, Kubernetes, start-up log).",
    ),
]
_LARGEST_FILE_BYTES = 1_000_000
_LOG_SUFFIXES = (".log", ".gz", ".out")


def read_running(running: str, engine: str | None) -> Present:
    """What `--running` says; `engine` (`--engine`) wins over the engine or version it names.

    Raises:
        BadUsage: not understood, or no engine to be told from it.
    """
    path = Path(running)
    try:
        if len(running) < 300 and path.is_file():
            return _read_file(path, engine)
        return import_text(running, engine)
    except BadUsage as error:
        if error.field in (None, "engine"):
            raise BadUsage(str(error), field="--running") from None
        raise


def choice_of(present: Present, sets: Sequence[str] | None) -> EngineChoice:
    """The engine and options that run today, with `--set` on top."""
    pairs = [f"{key}={value}" for key, value in present.raw.items()]
    own = {pair.partition("=")[0].strip() for pair in sets or ()}
    kept = [
        pair for pair in pairs if pair.partition("=")[0] not in present.engine.known_options(dict.fromkeys(own, "1"))
    ]
    return choose_engine(present.engine.spec, [*kept, *(sets or ())])


def asked_with(asked: Asked, running: str | None) -> tuple[Asked, Lists | None]:
    """A workload's options completed by what runs today, and the lists that run today; None where none are asked for.

    Raises:
        BadUsage: `running` is not understood.
    """
    if running is None:
        return asked, None
    present = read_running(running, asked.engine)
    choice = choice_of(present, asked.sets)
    pairs = [f"{key}={value}" for key, value in choice.raw.items()]
    first = present.engine.list_names[0]
    lists = {first: present.lists[first]} if present.lists.get(first) else None
    return replace(asked, engine=present.engine.spec, sets=pairs), lists


def _read_file(path: Path, engine: str | None) -> Present:
    if path.suffix in _LOG_SUFFIXES or path.stat().st_size > _LARGEST_FILE_BYTES:
        return _read_log(path, engine)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        raise BadUsage(f"{path} is no text file", field="--running") from None
    return import_text(text, engine)


def _read_log(path: Path, engine: str | None) -> Present:
    from workloads.traces.read import read

    try:
        observation = read(path).observation
    except BadInput as error:
        raise BadUsage(f"{path} cannot be read as a log: {error}", field="--running") from None
    if observation is None:
        raise BadUsage(f"{path} says nothing of an engine", field="--running")
    return import_observation(observation, engine)
