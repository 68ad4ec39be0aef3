"""ServeGen client models (Apache-2.0): an archive of rates and length distributions, sampled into requests.

Each client is `chunk-N-trace.csv` (no header: window start s, rate /s, cv, pattern, shape, scale; windows of 600 s) and
`chunk-N-dataset.json` (window start s -> field -> `{value: probability}` as text). Rates are those of a whole service.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from workloads.errors import BadInput
from workloads.traces.base import Probe, Reader
from workloads.traces.client_model import Client, Lengths, Rates, sample_client
from workloads.traces.json_document import DocumentTable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.requests import RequestColumns, read_requests
from workloads.traces.source import Source

_MEMBER = re.compile(r"(?:^|/)chunk-(\d{1,6})-(trace\.csv|dataset\.json)\Z")
MAX_MEMBER_BYTES = 16 << 20
MAX_MEMBERS = 20_000
MAX_REQUESTS = 20_000_000
INPUT_FIELDS = ("input_tokens", "text_tokens", "image_tokens", "audio_tokens", "video_tokens")
OUTPUT_FIELD = "output_tokens"


@dataclass(slots=True)
class _Parts:
    rates: dict[int, Rates] = field(default_factory=dict)
    lengths: dict[int, Lengths] = field(default_factory=dict)


class ServeGen(Reader):
    name = "servegen"
    description = "ServeGen client models, a tar archive; sampled at the rate of one engine"
    told_by = "an archive with members `chunk-N-trace.csv`"

    def recognise(self, probe: Probe) -> int:
        if not probe.source.is_tar:
            return 0
        return 90 if any(_MEMBER.search(name) for name, _ in _members(probe.source, first=50)) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source = probe.source
        if not source.is_tar:
            raise source.bad("not ServeGen: its client models come as a tar archive of chunk-N-trace.csv files")
        parts = _parts(source)
        clients = [Client(parts.rates[n], parts.lengths[n]) for n in sorted(parts.rates) if n in parts.lengths]
        offered = sum(rates.mean_per_s for rates in parts.rates.values())
        described = sum(client.rates.mean_per_s for client in clients)
        if not clients or described <= 0:
            raise source.bad("holds rates of clients and no lengths for them, so no request can be sampled")
        process = mapping.arrivals if mapping else None
        if mapping is None or process is None or process.kind != "recorded":
            raise source.bad(
                f"describes a whole service of many engines, {offered:.3g} requests/s on average: give the rate of one "
                "engine, for example recorded:2 for 2 requests/s (the clients' own arrival processes at that rate)",
                field="arrivals",
            )
        share = process.rate_per_s / described
        expected = sum(client.rates.expected(share) for client in clients)
        if expected > MAX_REQUESTS:
            raise source.bad(f"{process.rate_per_s:g} requests/s are {expected:.3g} requests; at most {MAX_REQUESTS}")
        random = np.random.default_rng(process.seed)
        sampled = [sample_client(client, share, random) for client in clients]
        arrival, inputs, outputs = (np.concatenate(column) for column in zip(*sampled, strict=True))
        order = np.argsort(arrival, kind="stable")
        table = DocumentTable(
            pl.DataFrame({"arrival": arrival[order], "input": inputs[order], "output": outputs[order]})
        )
        notes = (
            f"requests were sampled from {len(clients)} client models with seed {process.seed}; every rate was "
            f"multiplied by {share:.3g}, from {described:.3g} to {process.rate_per_s:g} requests/s on average",
            *_left_out(len(parts.rates), len(clients), offered, described),
        )
        columns = RequestColumns("arrival", "input", "output", "s")
        rest = replace(mapping, arrivals=None)
        return read_requests(source, table, columns, name=self.name, notes=notes, mapping=rest)


def _left_out(all_clients: int, described: int, offered: float, kept: float) -> tuple[str, ...]:
    if described == all_clients:
        return ()
    return (
        f"{all_clients - described} of {all_clients} clients have no lengths and were left out, "
        f"{1 - kept / offered:.1%} of the requests",
    )


class _Counted(io.BufferedIOBase):
    """The unpacked bytes of a file, and how many of them were read."""

    def __init__(self, source: Source) -> None:
        self._stream = source.stream()
        self.done = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._stream.read(-1 if size is None else size)
        self.done += len(data)
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()


def _members(source: Source, first: int = MAX_MEMBERS) -> Iterator[tuple[str, bytes]]:
    """Names and contents of regular files, in order; names are matched, never used as paths."""
    total = 0
    try:
        counted = _Counted(source)
        with counted as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for number, member in enumerate(archive):
                total += member.size
                if total > source.max_bytes:
                    raise source.bad(f"holds more than {source.max_bytes >> 20} MiB unpacked")
                if number >= first:
                    if first == MAX_MEMBERS:
                        raise source.bad(f"has more than {MAX_MEMBERS} files")
                    return
                if not member.isfile() or not _MEMBER.search(member.name):
                    continue
                if member.size > MAX_MEMBER_BYTES:
                    raise source.bad(f"file {number + 1} of the archive is larger than {MAX_MEMBER_BYTES >> 20} MiB")
                content = archive.extractfile(member)
                yield member.name, content.read() if content else b""
            # tarfile takes an archive without its end for a complete one
            if counted.done < archive.offset + tarfile.BLOCKSIZE:
                raise source.bad("the archive is cut off or damaged: its end is missing")
    except source.damaged as error:
        raise source.bad(f"the archive is cut off or damaged: {error}") from error


def _parts(source: Source) -> _Parts:
    parts = _Parts()
    for name, content in _members(source):
        match = _MEMBER.search(name)
        assert match is not None
        client, kind = int(match.group(1)), match.group(2)
        try:
            if kind == "trace.csv":
                parts.rates[client] = Rates.parse(content)
            else:
                parts.lengths[client] = Lengths.parse(json.loads(content), INPUT_FIELDS, OUTPUT_FIELD)
        except BadInput as error:
            raise source.bad(error.message, line=error.line, field=f"chunk-{client}-{kind}") from None
        except (ValueError, RecursionError) as error:
            raise source.bad("is not JSON", field=f"chunk-{client}-{kind}") from error
    return parts
