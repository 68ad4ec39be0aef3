"""Observer: collects what a log says about the engine itself, from a few start-up lines."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar

import polars as pl

from workloads.traces.records import EngineObservation

MAX_LINES = 20_000
"""Start-up lines looked at; the rest of a log that repeats them without end says nothing new."""


class Observer(ABC):
    """Fed with lines in file order; the last word on anything wins.

    Attributes:
        needles: texts, one of which every line of interest contains.
    """

    needles: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self._seen = 0

    def see(self, lines: pl.DataFrame) -> None:
        for text in lines["text"].head(max(MAX_LINES - self._seen, 0)):
            self.line(text)
        self._seen += lines.height

    @abstractmethod
    def line(self, text: str) -> None:
        """One line."""

    def notes(self) -> tuple[str, ...]:
        """Sentences on what is odd about the engine, e.g. that several write to one log."""
        return ()

    @abstractmethod
    def result(self) -> EngineObservation:
        """Everything found."""


def sizes_of(text: str) -> tuple[int, ...]:
    """`1, 2, 4` -> increasing sizes without duplicates."""
    return tuple(sorted({int(word) for word in re.findall(r"\d{1,9}", text)} - {0}))


def option_of(text: str, name: str) -> str | None:
    """Value of `name=value` or `'name': value` as text, without its quotes or the full stop of the sentence; None where
    absent or None."""
    match = re.search(rf"\b{name}['\"]?\s*[=:]\s*(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,;)}}\]]+)", text)
    if match is None or match.group(1) in ("None", "null"):
        return None
    return match.group(1).strip("'\"").removesuffix(".")
