"""What reports are made of, in no format yet: paragraphs, bullets, code, tables and drawings in sections."""

from __future__ import annotations

from dataclasses import dataclass

from services.report.drawings import Drawing

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """Short sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be copied as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first column names the row, figures stand right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Words | Bullets | Code | Table | Drawing


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report; `title` and `verdict` stand above all sections."""

    title: str
    verdict: str
    sections: tuple[Section, ...]

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        return tuple(block for section in self.sections for block in section.blocks if isinstance(block, Drawing))
