"""Table: a request file as named columns, whatever its syntax; read in chunks of raw values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import polars.selectors as cs

from workloads.arrays import I64

SAMPLE_ROWS = 200


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows.

    Attributes:
        frame: one raw column per role asked for (text as CSV has it, numbers as JSON and Parquet have them).
        line_of: row index in `frame` -> 1-based line of the file (row number for Parquet).
        first_line: line of row 0 where every row is the line after the row before, else None.
    """

    frame: pl.DataFrame
    line_of: Callable[[int], int]
    first_line: int | None = None

    def without_blank_rows(self) -> Chunk:
        """Rows with at least one value: polars makes a row of nulls out of a blank line of a CSV file."""
        blank = self.frame.select(
            pl.all_horizontal((pl.col(pl.String) == "").fill_null(True), (~cs.string()).is_null())
        ).to_series()
        if not blank.any():
            return self
        return self.only((~blank).arg_true().to_numpy().astype(np.int64))

    def only(self, rows: I64) -> Chunk:
        """These rows, by index, in order."""
        return Chunk(self.frame[rows], lambda row: self.line_of(int(rows[row])))


class Table(ABC):
    """Columns of a file.

    Attributes:
        kind: how people call the syntax.
        names: column names (of the first row for JSON lines), as spelt.
        sample: the first rows, at most 200, as {name: value}; text values for CSV.
    """

    kind: ClassVar[str]
    names: tuple[str, ...]
    sample: tuple[Mapping[str, object], ...]

    @abstractmethod
    def chunks(self, columns: Mapping[str, str]) -> Iterator[Chunk]:
        """All rows, only the columns asked for.

        Args:
            columns: role -> column name; chunks name their columns by role.

        Raises:
            BadInput: a row that cannot be parsed, with file and line.
        """

    def has(self, *names: str) -> bool:
        return set(names) <= set(self.names)

    def values(self, name: str) -> list[object]:
        """Sample values of a column, absent ones left out."""
        return [row[name] for row in self.sample if row.get(name) is not None]
