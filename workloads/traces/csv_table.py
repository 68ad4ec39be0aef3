"""CSV and TSV with a header, parsed by polars block by block."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator, Mapping
from itertools import islice

import polars as pl

from workloads.errors import BadInput
from workloads.traces.library_faults import FAULTS, raise_if_memory, words_of
from workloads.traces.prefetch import prefetched
from workloads.traces.source import Block, Source
from workloads.traces.table import SAMPLE_ROWS, Chunk, Table

_DELIMITERS = ",\t;"


class CsvTable(Table):
    kind = "CSV"

    def __init__(self, source: Source, names: tuple[str, ...], delimiter: str) -> None:
        self._source = source
        self._delimiter = delimiter
        self.names = names
        lines = io.StringIO(source.head, newline="")
        try:
            rows = [row for row in islice(csv.reader(lines, delimiter=delimiter), SAMPLE_ROWS + 1) if row]
        except csv.Error as error:
            raise source.bad(f"not readable as CSV: {error}") from error
        self.sample = tuple(dict(zip(names, row, strict=False)) for row in rows[1:])

    @classmethod
    def open(cls, source: Source) -> CsvTable | None:
        """The table, or None where the first line does not look like a CSV header."""
        first = source.head.partition("\n")[0].strip("\r")
        delimiter = max(_DELIMITERS, key=first.count)
        if delimiter not in first:
            return None
        try:
            names = tuple(cell.strip() for cell in next(csv.reader([first], delimiter=delimiter)))
        except csv.Error:
            return None
        return cls(source, names, delimiter)

    def chunks(self, columns: Mapping[str, str]) -> Iterator[Chunk]:
        wanted = {role: self.names.index(name) for role, name in columns.items()}
        for number, block in enumerate(prefetched(self._source.blocks(quoted=True))):
            skip = 1 if number == 0 else 0
            frame = self._parse(block, wanted, skip)
            if frame.height:
                plain = b'"' not in block.data
                yield Chunk(frame, _Lines(block, skip, self._delimiter), block.first_line + skip if plain else None)

    def _parse(self, block: Block, wanted: Mapping[str, int], skip: int) -> pl.DataFrame:
        body = block.data[block.data.find(b"\n") + 1 :] if skip else block.data
        if not body or body.isspace():
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        try:
            # polars sizes a file by its first row, which may be blank or short in a block: give it a full one.
            frame = pl.read_csv(
                self._delimiter.join(f"column_{i}" for i in range(len(self.names))).encode() + b"\n" + body,
                separator=self._delimiter,
                infer_schema=False,
                columns=[f"column_{index}" for index in sorted(set(wanted.values()))],
            )
        except FAULTS as error:
            raise_if_memory(error)
            raise self._locate(block, skip, error) from error
        return frame.select(pl.col(f"column_{index}").str.strip_chars().alias(role) for role, index in wanted.items())

    def _locate(self, block: Block, skip: int, error: BaseException) -> BadInput:
        """The fault as a plain reading of the block finds it; else in the library's own words."""
        reader = csv.reader(io.StringIO(block.data.decode(), newline=""), delimiter=self._delimiter, strict=True)
        try:
            for row in islice(reader, skip, None):
                if len(row) > len(self.names):
                    line = block.first_line + reader.line_num - 1
                    return self._source.bad(f"{len(row)} fields where the header has {len(self.names)}", line=line)
        except csv.Error as found:
            return self._source.bad(f"not readable as CSV: {found}", line=block.first_line + reader.line_num - 1)
        return self._source.bad(f"not readable as CSV from here on: {words_of(error)}", line=block.first_line)


class _Lines:
    """Row index -> line. Without quotes a row is a line; with them rows are walked again, once, for the message."""

    def __init__(self, block: Block, skip: int, delimiter: str) -> None:
        self._block, self._skip, self._delimiter = block, skip, delimiter

    def __call__(self, row: int) -> int:
        row += self._skip
        if b'"' not in self._block.data:
            return self._block.first_line + row
        reader = csv.reader(io.StringIO(self._block.data.decode(), newline=""), delimiter=self._delimiter)
        with contextlib.suppress(csv.Error):
            next(islice(reader, row, None), None)
        return self._block.first_line + max(reader.line_num, 1) - 1
