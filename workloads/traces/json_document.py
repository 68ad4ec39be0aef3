"""JSON documents: a file that is one object or one list, as benchmark tools export their results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import polars as pl

from workloads.errors import BadInput
from workloads.traces.json_frames import LINE, Schema, decode, parsed
from workloads.traces.library_faults import FAULTS, raise_if_memory
from workloads.traces.source import MAX_ROW_BYTES, Source
from workloads.traces.table import SAMPLE_ROWS, Chunk, Table

MAX_DOCUMENT_BYTES = 256 << 20
MAX_OBJECTS = 10_000
_OBJECT = re.compile(rb"\s*\{")
_LIST = re.compile(rb"\s*\[\s*\{")


class JsonDocument:
    """A file whose JSON is not one small object a line.

    Attributes:
        source: the file.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    @classmethod
    def open(cls, source: Source) -> JsonDocument | None:
        """The document, or None for JSON lines and everything that is no JSON."""
        if source.is_parquet or source.is_tar:
            return None
        if _LIST.match(source.peek):
            return cls(source)
        if not _OBJECT.match(source.peek):
            return None
        first = source.peek.lstrip().partition(b"\n")[0]
        short = len(first) < MAX_ROW_BYTES - 16
        return None if short and parsed(first.decode("utf-8", errors="replace")) is not None else cls(source)

    @property
    def is_list(self) -> bool:
        return bool(_LIST.match(self.source.peek))

    def mentions(self, *keys: str) -> bool:
        """Whether all of these keys occur in the first MiB."""
        return all(f'"{key}"'.encode() in self.source.peek for key in keys)

    def bad(self) -> BadInput:
        """What is wrong with a document that no reader takes."""
        if not self.is_list:
            decode(self.source, self._text(), {"no such key": pl.Null()})
        return self.source.bad("this JSON document is not an export that Captune knows")

    def table(self) -> DocumentTable | None:
        """A list of objects (the document, or its only list of objects) as a table; None where there is none."""
        try:
            frame = pl.read_json(self._text().encode(), infer_schema_length=None)
        except FAULTS as error:
            raise_if_memory(error)
            return None
        if not self.is_list:
            lists = [
                name
                for name, dtype in frame.schema.items()
                if isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct)
            ]
            if len(lists) != 1 or frame.height != 1:
                return None
            frame = frame.select(pl.col(lists[0]).explode()).unnest(lists[0])
        return DocumentTable(_flat(frame)) if frame.height and frame.width else None

    def _text(self) -> str:
        return self.source.whole(MAX_DOCUMENT_BYTES).decode()


class DocumentTable(Table):
    """Rows of a JSON list; `line_of` counts rows."""

    kind = "JSON"

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self.names = tuple(frame.columns)
        self.sample = tuple(frame.head(SAMPLE_ROWS).to_dicts())

    def chunks(self, columns: Mapping[str, str]) -> Iterator[Chunk]:
        frame = self._frame.select(pl.col(name).alias(role) for role, name in columns.items())
        yield Chunk(frame, lambda row: row + 1)


def objects(source: Source, schema: Schema) -> pl.DataFrame:
    """The fields of `schema` of a file that is one object, or a few large ones a line each, with `line`.

    Raises:
        BadInput: not JSON, or a field of another type.
    """
    text = source.whole(MAX_DOCUMENT_BYTES).decode()
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    several = len(lines) > 1 and all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for _, line in lines)
    if not several:
        return decode(source, text, schema).with_columns(pl.lit(1, pl.Int64).alias(LINE))
    if len(lines) > MAX_OBJECTS:
        raise source.bad(f"holds more than {MAX_OBJECTS} results; split it into smaller files")
    return pl.concat(
        decode(source, line, schema, number).with_columns(pl.lit(number, pl.Int64).alias(LINE))
        for number, line in lines
    )


def _flat(frame: pl.DataFrame, depth: int = 3) -> pl.DataFrame:
    """Fields of nested objects as columns named by their path."""
    for _ in range(depth):
        nested = {name: dtype for name, dtype in frame.schema.items() if isinstance(dtype, pl.Struct)}
        if not nested:
            break
        fields = [
            pl.col(name).struct.field(field.name).alias(f"{name}.{field.name}")
            for name, dtype in nested.items()
            for field in dtype.fields
        ]
        frame = frame.select(pl.exclude(*nested), *fields)
    return frame
