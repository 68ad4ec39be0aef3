"""The child process that reads handed-in files within limits, one after the other, until its parent hangs up."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import polars as pl

from workloads.errors import BadInput, CaptuneError, Unavailable
from workloads.traces.library_faults import raise_if_memory
from workloads.traces.proposal import propose
from workloads.traces.read import read
from workloads.traces.wire import dump_result, load_mapping

MIB = 1024 * 1024
MAX_THREADS = 4
"""Of the table library: every thread takes address space for its stack, and files are read in blocks anyway."""
LEAST_ROOM_MIB = 128
"""Address space beyond the libraries' own that the smallest file gets: two blocks, their columns, one more thread."""
_ROUND_MIB = 64
_M_ARENA_MAX = -8  # glibc, malloc.h
REFUSED = b"!"
"""First byte of an answer that is an error."""
FIT, SPENT = b"fit", b"spent"
"""Last part of an answer: whether this child can take another file."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of one child.

    Attributes:
        timeout_s: per file.
        memory_mib: address space of the child, libraries included.
        unpacked_mib: most unpacked bytes of a file.
    """

    timeout_s: float
    memory_mib: int
    unpacked_mib: int = 4096


def serve(pipe: Connection[Any, Any], limits: ReadLimits) -> None:
    """Answer each job (JSON) with three messages: JSON, or `!` and the fields of an error; Parquet columns; state."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a dying library prints helps nobody
    least_mib = _confine(limits.memory_mib)
    while True:
        try:
            job = json.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        if least_mib > limits.memory_mib:
            head, columns, fit = _refused(_too_little(limits.memory_mib, least_mib)), b"", True
        else:
            head, columns, fit = _answer(lambda job=job: _work(job, limits), limits)  # type: ignore[misc]
        pipe.send_bytes(head)
        pipe.send_bytes(columns)
        pipe.send_bytes(FIT if fit and _room_mib(limits.memory_mib) >= LEAST_ROOM_MIB else SPENT)


def _confine(memory_mib: int) -> int:
    """Limit this process's address space, unless its libraries leave too little of it; the least MiB that works.

    All threads of the libraries are started before: one that cannot be started later makes its library panic, or
    leaves Python waiting for it.
    """
    if sys.platform != "linux":
        return 0
    os.environ["POLARS_MAX_THREADS"] = str(min(MAX_THREADS, len(os.sched_getaffinity(0))))
    with contextlib.suppress(OSError, AttributeError):  # another C library has no arenas to bound
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)
    pl.LazyFrame({"size": [1]}).select(pl.col("size").sum()).collect()
    pl.read_csv(b"size,count\n1,2\n", infer_schema=False)
    pl.read_ndjson(b'{"size": 1}\n')
    least_mib = -(-(_address_space_mib() + LEAST_ROOM_MIB) // _ROUND_MIB) * _ROUND_MIB
    if least_mib <= memory_mib:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mib * MIB,) * 2)
    return least_mib


def _address_space_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize() // MIB


def _room_mib(memory_mib: int) -> int:
    return memory_mib - _address_space_mib() if sys.platform == "linux" else memory_mib


def _too_little(memory_mib: int, least_mib: int) -> Unavailable:
    return Unavailable(
        f"no file can be read: a reader needs at least {least_mib} MiB of memory and is allowed {memory_mib} MiB; "
        "the operator sets CAPTUNE_PARSE_MEMORY_MIB"
    )


def _work(job: dict[str, Any], limits: ReadLimits) -> tuple[bytes, bytes]:
    path, most = Path(job["path"]), limits.unpacked_mib * MIB
    if job["job"] == "propose":
        return json.dumps(asdict(propose(path, max_bytes=most))).encode(), b""
    return dump_result(read(path, mapping=load_mapping(job["mapping"]), format=job["format"], max_bytes=most))


def _answer(work: Callable[[], tuple[bytes, bytes]], limits: ReadLimits) -> tuple[bytes, bytes, bool]:
    """Head, columns, and whether the libraries are still whole: neither a panic nor a want of memory leaves them so."""
    try:
        return *work(), True
    except CaptuneError as error:
        return _refused(error), b"", True
    except (Exception, pl.exceptions.PanicException) as error:  # the job ends here: a reader that stumbles refuses
        try:
            raise_if_memory(error)
        except MemoryError:
            return _refused(BadInput(f"it cannot be read within {limits.memory_mib} MiB of memory")), b"", False
        return _refused(BadInput(f"it cannot be read ({type(error).__name__})")), b"", False


def _refused(error: CaptuneError) -> bytes:
    return REFUSED + json.dumps(error.fields()).encode()
