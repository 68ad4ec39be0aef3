"""JSON lines: one object a line, parsed by polars block by block; a nested field is named by its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from workloads.traces.block_column import ROLE as BLOCKS
from workloads.traces.json_frames import LINE, ndjson_frames, parsed
from workloads.traces.source import Source
from workloads.traces.table import SAMPLE_ROWS, Chunk, Table

MAX_DEPTH = 4
MAX_NAMES = 2_000
Path = tuple[str, ...]


class JsonTable(Table):
    """`names` are the keys of the sampled rows; the field `b` inside the object `a` is named `a.b`."""

    kind = "JSON lines"

    def __init__(self, source: Source, sample: tuple[dict[str, Any], ...]) -> None:
        self._source = source
        self.sample = sample
        self._paths: dict[str, Path] = {}
        for row in sample:
            _walk(row, (), self._paths)
        self.names = tuple(sorted(self._paths, key=lambda name: len(self._paths[name])))

    @classmethod
    def open(cls, source: Source) -> JsonTable | None:
        """The table, or None where the first line is not a JSON object."""
        rows: list[dict[str, Any]] = []
        for line in source.head.splitlines():
            if not line.strip():
                continue
            row = parsed(line)
            if row is None or len(rows) == SAMPLE_ROWS:
                break
            rows.append(row)
        return cls(source, tuple(rows)) if rows and rows[0] else None

    def values(self, name: str) -> list[object]:
        path = self._paths.get(name)
        found = (_at(row, path) for row in self.sample) if path else ()
        return [value for value in found if value is not None]

    def chunks(self, columns: Mapping[str, str]) -> Iterator[Chunk]:
        paths = {name: self._paths.get(name, (name,)) for name in columns.values()}
        dtypes = {path: self._dtype(name) for name, path in paths.items()}
        if BLOCKS in columns:
            dtypes[paths[columns[BLOCKS]]] = pl.List(pl.Int64())
        schema = _schema(dtypes)
        for frame in ndjson_frames(self._source, schema):
            lines = frame[LINE].to_numpy()
            plain = bool(lines[-1] - lines[0] == len(lines) - 1) if len(lines) else False
            yield Chunk(
                frame.select(_field(paths[name]).alias(role) for role, name in columns.items()),
                lambda row, lines=lines: int(lines[row]),  # type: ignore[misc]
                int(lines[0]) if plain else None,
            )

    def _dtype(self, name: str) -> pl.DataType:
        """Numbers where the first value is one; everything else as its JSON text."""
        first = next(iter(self.values(name)), None)
        return pl.Float64() if isinstance(first, int | float) and not isinstance(first, bool) else pl.String()


def _walk(value: dict[str, Any], prefix: Path, found: dict[str, Path]) -> None:
    for key, item in value.items():
        path = (*prefix, key)
        if len(found) < MAX_NAMES:
            found.setdefault(".".join(path), path)
        if isinstance(item, dict) and len(path) < MAX_DEPTH:
            _walk(item, path, found)


def _at(row: Mapping[str, Any], path: Path) -> object:
    value: object = row
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _schema(leaves: Mapping[Path, pl.DataType]) -> dict[str, pl.DataType]:
    """Leaves by path -> one polars type per top-level key."""
    heads = dict.fromkeys(path[0] for path in leaves)
    schema: dict[str, pl.DataType] = {}
    for head in heads:
        below = {path[1:]: dtype for path, dtype in leaves.items() if path[0] == head and len(path) > 1}
        schema[head] = pl.Struct(_schema(below)) if below else leaves[(head,)]
    return schema


def _field(path: Path) -> pl.Expr:
    expression = pl.col(path[0])
    for key in path[1:]:
        expression = expression.struct.field(key)
    return expression
