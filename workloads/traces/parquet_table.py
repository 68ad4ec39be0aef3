"""Parquet request tables; only the columns asked for are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from workloads.traces.library_faults import FAULTS, raise_if_memory
from workloads.traces.source import Source
from workloads.traces.table import SAMPLE_ROWS, Chunk, Table

MAX_ROWS = 200_000_000
CHUNK_ROWS = 4_000_000


class ParquetTable(Table):
    kind = "Parquet"

    def __init__(self, source: Source) -> None:
        self._source = source
        try:
            scan = pl.scan_parquet(source.path)
            self.names = tuple(scan.collect_schema().names())
            self._rows = int(scan.select(pl.len()).collect().item())
            self.sample = tuple(scan.head(SAMPLE_ROWS).collect().to_dicts())
        except (*FAULTS, OSError) as error:
            raise_if_memory(error)
            raise source.bad("the Parquet data is cut off or damaged") from error
        if self._rows > MAX_ROWS:
            raise source.bad(f"has {self._rows} rows; at most {MAX_ROWS} are read, split it into smaller files")

    def chunks(self, columns: Mapping[str, str]) -> Iterator[Chunk]:
        for start in range(0, self._rows, CHUNK_ROWS):
            try:
                scan = pl.scan_parquet(self._source.path).slice(start, CHUNK_ROWS)
                frame = scan.select(pl.col(name).alias(role) for role, name in columns.items()).collect()
            except (*FAULTS, OSError) as error:
                raise_if_memory(error)
                raise self._source.bad("the Parquet data is cut off or damaged", line=start + 1) from error
            yield Chunk(frame, lambda row, start=start: start + row + 1, start + 1)  # type: ignore[misc]
