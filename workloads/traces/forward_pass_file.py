"""A file of forward-pass metrics: msgpack messages one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workloads.errors import BadInput
from workloads.traces.base import Probe, Reader
from workloads.traces.forward_pass import FAMILIES, ForwardPass, forward_pass, unpack, unpacker
from workloads.traces.log_reader import Evidence
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import EngineObservation, ReadResult
from workloads.traces.source import Source
from workloads.traces.step_result import gather, result_of

_READ_BYTES = 1 << 18
_NEWLINES = (10, 13)
_BOM = b"\xef\xbb\xbf"


class ForwardPassFile(Reader):
    name = "forward-pass-metrics"
    description = "forward-pass metrics of SGLang or Dynamo, msgpack messages one after the other"
    told_by = "msgpack arrays or maps that begin with `version`"

    def recognise(self, probe: Probe) -> int:
        return 94 if probe.source.is_msgpack else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source = probe.source
        if not source.is_msgpack:
            raise source.bad("not a file of msgpack messages")
        dropped = _Dropped()
        gathered = gather(_rows(source, dropped))
        return result_of(
            self.name,
            source,
            gathered,
            lambda rows: Evidence("census", notes=tuple(dropped.notes())),
            families=FAMILIES,
            units=("requests", "tokens"),
            writers="engines or data-parallel ranks",
            observation=EngineObservation(engine="sglang"),
        )


class _Dropped:
    """Messages that never arrived, by their numbers: the engine's queue drops them silently when it is full."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self.missing = 0

    def see(self, found: ForwardPass) -> None:
        rank = f"{found.engine} {found.dp_rank}"
        last = self._last.get(rank)
        if last is not None and found.number > last + 1:
            self.missing += found.number - last - 1
        self._last[rank] = found.number

    def notes(self) -> list[str]:
        if not self.missing:
            return []
        return [f"{self.missing} forward passes are missing between the numbers of their messages"]


def _rows(source: Source, dropped: _Dropped) -> Iterator[dict[str, Any]]:
    for number, message in enumerate(_messages(source), 1):
        try:
            found = forward_pass(message)
        except BadInput as error:
            raise source.bad(error.message, line=number, field=error.field) from None
        if found is None:
            yield {"line": number, "reason": "not forward-pass metrics"}
            continue
        dropped.see(found)
        yield found.row() | {"line": number}


def _messages(source: Source) -> Iterator[object]:
    stream, total, first = unpacker(), 0, True
    with source.stream() as file:
        while data := source.read_from(file, total, _READ_BYTES):
            total += len(data)
            if total > source.max_bytes:
                raise source.bad(f"holds more than {source.max_bytes >> 20} MiB unpacked; split it into smaller files")
            try:
                for message in unpack(stream, data.removeprefix(_BOM) if first else data):
                    if message not in _NEWLINES:
                        yield message
            except BadInput as error:
                raise source.bad(f"{error.message} (within the first {total} bytes)") from None
            first = False
