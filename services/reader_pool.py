"""ReaderPool: reused child processes that read handed-in files within limits; a hostile file costs a child.

What crosses between the processes is JSON and Parquet: nothing is unpickled that a file could have shaped.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from services.reader_child import FIT, REFUSED, ReadLimits, serve
from workloads.errors import BadInput, BadUsage, CaptuneError, Unavailable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.proposal import ColumnSeen, MappingProposal
from workloads.traces.records import ReadResult
from workloads.traces.time_units import UnitReading
from workloads.traces.wire import dump_mapping, load_mapping, load_result

__all__ = ["ReadLimits", "ReaderPool"]

MAX_JOBS = 500
"""A child is replaced after so many files, so that nothing a library leaves behind adds up."""
DIED = "reading it made the reader fail: the file is damaged, or it cannot be read within"
"""A library that meets a damaged Parquet page or has no memory left ends its process; only the child is lost."""
_KINDS: dict[str, type[CaptuneError]] = {kind.code: kind for kind in (BadInput, BadUsage, Unavailable)}

_context = multiprocessing.get_context("forkserver")
# The fork server imports the readers once; a child then starts in milliseconds.
_context.set_forkserver_preload(["services.reader_pool"])


@dataclass(slots=True)
class _Child:
    process: BaseProcess
    pipe: Connection[Any, Any]
    jobs: int = 0

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()
        self.process.close()


class ReaderPool:
    """Children are started when needed, kept while idle, and replaced when a file broke their limits.

    Thread-safe: each file has a child of its own while it is read; at most `keep` idle ones stay.
    """

    def __init__(self, limits: ReadLimits, keep: int = 2) -> None:
        self._limits = limits
        self._keep = keep
        self._idle: list[_Child] = []
        self._lock = threading.Lock()

    def read(
        self, path: Path, name: str, mapping: ColumnMapping | None = None, format: str | None = None
    ) -> ReadResult:
        """Read `path` as `workloads.traces.read` does; messages call the file `name`.

        Raises:
            BadInput: not understood, or reading took more time or memory than allowed.
            BadUsage: no such format.
            Unavailable: the limits leave no memory for any file.
        """
        job = {"job": "read", "path": str(path), "mapping": dump_mapping(mapping), "format": format}
        head, columns = self._run(job, name)
        return load_result(head, columns)

    def propose(self, path: Path, name: str) -> MappingProposal:
        """What the file's columns likely mean.

        Raises:
            BadInput: not understood, or looking took more time or memory than allowed.
            Unavailable: the limits leave no memory for any file.
        """
        head, _ = self._run({"job": "propose", "path": str(path)}, name)
        return _load_proposal(json.loads(head))

    def close(self) -> None:
        """End the idle children."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _run(self, job: dict[str, Any], name: str) -> tuple[bytes, bytes]:
        child = self._take()
        try:
            head, columns, fit = self._ask(child, job, name)
        except BaseException:
            child.end()
            raise
        self._give(child, fit)
        if head[:1] == REFUSED:
            fields = json.loads(head[1:])
            kind = _KINDS.get(fields["code"], BadInput)
            raise kind(fields["message"], file=name, line=fields["line"], field=fields["field"])
        return head, columns

    def _ask(self, child: _Child, job: dict[str, Any], name: str) -> tuple[bytes, bytes, bool]:
        child.jobs += 1
        try:
            child.pipe.send_bytes(json.dumps(job).encode())
            if not child.pipe.poll(self._limits.timeout_s):
                raise BadInput(f"reading it took longer than {self._limits.timeout_s:g} s", file=name)
            return child.pipe.recv_bytes(), child.pipe.recv_bytes(), child.pipe.recv_bytes() == FIT
        except (EOFError, OSError):
            raise BadInput(f"{DIED} {self._limits.memory_mib} MiB of memory", file=name) from None

    def _take(self) -> _Child:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        ours, theirs = _context.Pipe()
        process = _context.Process(target=serve, args=(theirs, self._limits), daemon=True)
        process.start()
        theirs.close()
        return _Child(process, ours)

    def _give(self, child: _Child, fit: bool) -> None:
        with self._lock:
            if fit and child.jobs < MAX_JOBS and len(self._idle) < self._keep:
                self._idle.append(child)
                return
        child.end()


def _load_proposal(document: dict[str, Any]) -> MappingProposal:
    mapping = load_mapping(document["mapping"])
    assert mapping is not None
    return MappingProposal(
        document["format"],
        tuple(ColumnSeen(**column) for column in document["columns"]),
        mapping,
        tuple(UnitReading(**reading) for reading in document["unit_readings"]),
        tuple(document["questions"]),
    )
