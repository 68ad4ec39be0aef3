"""Mooncake and Bailian traces: JSON lines that share their field names, not their clock.

`timestamp` is milliseconds in Mooncake files and seconds in Bailian files; `hash_ids` has one id per 512-token block
there and per 16-token block here. `ceil(input_length / block) == len(hash_ids)` therefore tells which clock it is.
"""

from __future__ import annotations

from typing import ClassVar

from workloads.traces.base import Probe, Reader
from workloads.traces.json_table import JsonTable
from workloads.traces.mapping import ColumnMapping, TimeUnit
from workloads.traces.records import ReadResult
from workloads.traces.requests import RequestColumns, read_requests
from workloads.traces.table import Table

_FIELDS = ("timestamp", "input_length", "output_length")


class _HashedBlocks(Reader):
    block_tokens: ClassVar[int]
    time_unit: ClassVar[TimeUnit]
    sibling_key: ClassVar[str] = "chat_id"
    has_sibling_key: ClassVar[bool]

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        if not isinstance(table, JsonTable) or not table.has(*_FIELDS, "hash_ids"):
            return 0
        if not _blocks_fit(table, self.block_tokens):
            return 0
        # Prompts of one short block fit both sizes; then the keys decide.
        return 90 if (self.sibling_key in table.names) == self.has_sibling_key else 60

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table = probe.table
        if table is None or not table.has(*_FIELDS):
            raise probe.source.bad(f"not a {self.name} trace: rows have {', '.join(_FIELDS)}")
        blocks = "hash_ids" if table.has("hash_ids") else None
        columns = RequestColumns(*_FIELDS, self.time_unit, blocks=blocks, block_tokens=self.block_tokens)
        return read_requests(probe.source, table, columns, name=self.name, mapping=mapping)


class Mooncake(_HashedBlocks):
    name = "mooncake"
    description = "Mooncake trace, JSON lines in milliseconds with 512-token blocks"
    told_by = "`hash_ids` with one id per 512 tokens of `input_length`"
    block_tokens = 512
    time_unit = "ms"
    has_sibling_key = False


class Bailian(_HashedBlocks):
    name = "bailian"
    description = "Qwen-Bailian trace, JSON lines in seconds with 16-token blocks"
    told_by = "`hash_ids` with one id per 16 tokens of `input_length`, and `chat_id`"
    block_tokens = 16
    time_unit = "s"
    has_sibling_key = True


def _blocks_fit(table: Table, block_tokens: int) -> bool:
    seen = 0
    for row in table.sample:
        tokens, ids = row.get("input_length"), row.get("hash_ids")
        if not isinstance(tokens, int) or not isinstance(ids, list):
            continue
        if -(-tokens // block_tokens) != len(ids):
            return False
        seen += 1
    return seen > 0
