"""JSON lines: one object a line, parsed by polars block by block."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl

from workloads.errors import BadInput
from workloads.traces.source import Block, Source
from workloads.traces.table import SAMPLE_ROWS, Chunk, Table


class JsonTable(Table):
    kind = "JSON lines"

    def __init__(self, source: Source, sample: tuple[dict[str, Any], ...]) -> None:
        self._source = source
        self.sample = sample
        self.names = tuple(sample[0])

    @classmethod
    def open(cls, source: Source) -> JsonTable | None:
        """The table, or None where the first line is not a JSON object."""
        rows: list[dict[str, Any]] = []
        for line in source.head.splitlines():
            if not line.strip():
                continue
            row = _object(line)
            if row is None or len(rows) == SAMPLE_ROWS:
                break
            rows.append(row)
        return cls(source, tuple(rows)) if rows and rows[0] else None

    def chunks(self, columns: Mapping[str, str]) -> Iterator[Chunk]:
        schema = {name: self._dtype(name) for name in columns.values()}
        for block in self._source.blocks():
            if block.data.isspace():
                continue
            try:
                frame = pl.read_ndjson(block.data, schema=schema)
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                raise self._locate(block, schema) from error
            yield Chunk(frame.select(pl.col(name).alias(role) for role, name in columns.items()), _line_of(block))

    def _dtype(self, name: str) -> pl.DataType:
        values = self.values(name)
        return pl.String() if values and isinstance(values[0], str) else pl.Float64()

    def _locate(self, block: Block, schema: Mapping[str, pl.DataType]) -> BadInput:
        for number, line in enumerate(block.data.decode().split("\n")):
            where = block.first_line + number
            if not line.strip():
                continue
            row = _object(line)
            if row is None:
                return self._source.bad("not a JSON object", line=where)
            for name, dtype in schema.items():
                value = row.get(name)
                wanted: tuple[type, ...] = (str,) if dtype == pl.String else (int, float)
                if value is not None and (isinstance(value, bool) or not isinstance(value, wanted)):
                    kind = "text" if dtype == pl.String else "a number"
                    return self._source.bad(f"{json.dumps(value)[:60]} is not {kind}", line=where, field=name)
        return self._source.bad("not readable as JSON lines from here on", line=block.first_line)


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _line_of(block: Block) -> Callable[[int], int]:
    def line_of(row: int) -> int:
        for number, line in enumerate(block.data.split(b"\n")):
            if line.strip():
                if row == 0:
                    return block.first_line + number
                row -= 1
        return block.first_line

    return line_of
