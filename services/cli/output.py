"""What a command prints: one JSON object or a text for people on stdout; progress and logs on stderr."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_PIPE_COLUMNS = 140


@dataclass(frozen=True, slots=True)
class Output:
    """The two streams of one command.

    Attributes:
        stdout: the real standard output; Ray and libraries cannot reach it (see `services.capture.stdout`).
        as_json: print the document and nothing else.
    """

    stdout: TextIO
    as_json: bool

    def emit(self, document: Mapping[str, Any], human: Callable[[Console], None]) -> None:
        """Print the result: `document` as one JSON object, or what `human` draws."""
        if self.as_json:
            self.stdout.write(json.dumps(_plain(document), allow_nan=False) + "\n")
        else:
            # A pipe or a file has no width of its own; 80 columns would break tables for nobody's benefit.
            width = None if self.stdout.isatty() else _PIPE_COLUMNS
            human(Console(file=self.stdout, highlight=False, soft_wrap=True, width=width))
        self.stdout.flush()


def stderr_console() -> Console:
    return Console(stderr=True, highlight=False)


class Advance(Protocol):
    def __call__(self, done: int, now: str, total: int | None = None) -> None: ...


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Advance]:
    """A progress bar on stderr; what it yields takes (done, what is being done now, total if that changed)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr_console(), transient=True) as bar:
        task = bar.add_task(description, total=total)

        def advance(done: int, now: str, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total, description=f"{description}: {now}")

        yield advance


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A plain table; columns of figures stand right, columns of words left."""
    drawn = Table(title=title or None, title_justify="left", box=None, pad_edge=False, title_style="bold")
    for i, column in enumerate(columns):
        figures = i > 0 and all(str(row[i] or "0")[0] in "-0123456789u" for row in rows)
        drawn.add_column(column, justify="right" if figures else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(cell) for cell in row))
    return drawn


def _cell(cell: object) -> Text:
    """What a cell says, literally: a message may hold square brackets, which Rich would take for markup."""
    return cell if isinstance(cell, Text) else Text("" if cell is None else str(cell))


def number(value: float | None, digits: int = 3, unit: str = "") -> str:
    """A figure for people; `unknown` where there is none."""
    if value is None or not math.isfinite(value):
        return "unknown"
    return f"{value:,.{digits}f}{unit}"


def percent(share: float | None, digits: int = 1) -> str:
    return "unknown" if share is None else f"{share:.{digits}%}"


def sizes_text(sizes: Sequence[int]) -> str:
    return ", ".join(str(size) for size in sizes)


def _plain(value: Any) -> Any:
    """JSON has no nan or infinity: unknown figures become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        return _plain(value.item())
    return value
