"""JSON text as polars frames of the fields asked for, with the line of every row; nothing else is kept of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from workloads.errors import BadInput
from workloads.traces.library_faults import FAULTS, raise_if_memory, words_of
from workloads.traces.source import Block, Source

Schema = Mapping[str, pl.DataType]
LINE = "line"


def ndjson_frames(source: Source, schema: Schema) -> Iterator[pl.DataFrame]:
    """JSON lines block by block: the columns of `schema` and `line` (1-based, int64).

    Raises:
        BadInput: a line that is no JSON object, or a field of another type, with line and field.
    """
    for block in source.blocks():
        if block.data.isspace():
            continue
        try:
            frame = pl.read_ndjson(block.data, schema=dict(schema))
        except FAULTS as error:
            raise_if_memory(error)
            raise _locate(source, block, schema, error) from error
        yield frame.with_columns(pl.Series(LINE, _lines(block, frame.height), dtype=pl.Int64))


def decode(source: Source, text: str, schema: Schema, line: int = 1) -> pl.DataFrame:
    """One JSON object as a frame of one row.

    Raises:
        BadInput: not JSON, or a field of another type; names the field.
    """
    try:
        return pl.Series([text]).str.json_decode(pl.Struct(dict(schema))).struct.unnest()
    except FAULTS as error:
        raise_if_memory(error)
        raise _misfit(source, text, schema, line, error) from error


def parsed(text: str) -> dict[str, Any] | None:
    """A JSON object, strictly; None for anything else."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _lines(block: Block, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if block.data.count(b"\n") == rows:
        return np.arange(block.first_line, block.first_line + rows, dtype=np.int64)
    numbers = [block.first_line + i for i, line in enumerate(block.data.split(b"\n")) if line.strip()]
    return np.array(numbers[:rows] + [block.first_line] * (rows - len(numbers)), dtype=np.int64)


def _locate(source: Source, block: Block, schema: Schema, error: BaseException) -> BadInput:
    for number, line in enumerate(block.data.decode().split("\n")):
        where = block.first_line + number
        if not line.strip():
            continue
        row = parsed(line)
        if row is None:
            return source.bad("not a JSON object", line=where)
        for name, dtype in schema.items():
            problem = _misfits(row.get(name), dtype, name)
            if problem is not None:
                return source.bad(problem[1], line=where, field=problem[0])
    return source.bad(f"not readable as JSON lines from here on: {words_of(error)}", line=block.first_line)


def _misfits(value: object, dtype: pl.DataType, name: str) -> tuple[str, str] | None:
    """(field, sentence) of the first value that is not of its type."""
    if value is None:
        return None
    if isinstance(dtype, pl.Struct):
        if not isinstance(value, dict):
            return name, f"{_shown(value)} is not an object"
        parts = (_misfits(value.get(f.name), _instance(f.dtype), f"{name}.{f.name}") for f in dtype.fields)
        return next((part for part in parts if part), None)
    if isinstance(dtype, pl.List):
        if not isinstance(value, list):
            return name, f"{_shown(value)} is not a list"
        parts = (_misfits(item, _instance(dtype.inner), name) for item in value)
        return next((part for part in parts if part), None)
    if dtype == pl.String:
        return None if isinstance(value, str) else (name, f"{_shown(value)} is not text")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if number else (name, f"{_shown(value)} is not a number")


def _instance(dtype: Any) -> pl.DataType:
    made: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return made


def _misfit(source: Source, text: str, schema: Schema, line: int, error: BaseException) -> BadInput:
    for name, dtype in schema.items():
        try:
            pl.Series([text]).str.json_decode(pl.Struct({name: dtype}))
        except FAULTS as again:
            raise_if_memory(again)
            if _is_json(text):
                return source.bad("the value is not what this format has there", line=line, field=name)
            return source.bad("the JSON is cut off or damaged", line=_broken_line(text, line))
    return source.bad(f"not readable as JSON: {words_of(error)}", line=line)


def _is_json(text: str) -> bool:
    try:
        pl.Series([text]).str.json_decode(pl.Struct({"no such key": pl.Null()}))
    except FAULTS as error:
        raise_if_memory(error)
        return False
    return True


def _broken_line(text: str, line: int) -> int:
    if len(text) > 16 << 20:
        return line
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return line + error.lineno - 1
    except (ValueError, RecursionError):
        pass
    return line


def _shown(value: object) -> str:
    return json.dumps(value)[:60]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
