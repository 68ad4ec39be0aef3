"""Reads an uploaded file in a child process with limits on time and memory, so that a hostile file costs a child."""

from __future__ import annotations

import multiprocessing
import resource
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from workloads.errors import BadInput, CaptuneError
from workloads.traces.read import read
from workloads.traces.records import ReadResult

MIB = 1024 * 1024

_context = multiprocessing.get_context("forkserver")
# The fork server imports the readers once; a child then starts in milliseconds.
_context.set_forkserver_preload(["services.api.reading"])


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of one child."""

    timeout_s: float
    memory_mib: int


def read_in_child(path: Path, name: str, limits: ReadLimits) -> ReadResult:
    """Read `path` as `read` does; messages call the file `name`.

    Raises:
        BadInput: not understood, or reading took more time or memory than allowed.
    """
    receiver, sender = _context.Pipe(duplex=False)
    process = _context.Process(target=_read, args=(sender, path, limits.memory_mib), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(limits.timeout_s):
            raise BadInput(f"reading it took longer than {limits.timeout_s:g} s", file=name)
        outcome = receiver.recv()
    except EOFError:
        raise BadInput(f"it cannot be read within {limits.memory_mib} MiB of memory", file=name) from None
    finally:
        receiver.close()
        process.kill()
        process.join()
        process.close()
    if isinstance(outcome, CaptuneError):
        raise type(outcome)(outcome.message, file=name, line=outcome.line, field=outcome.field)
    assert isinstance(outcome, ReadResult)
    return outcome


def _read(sender: Connection[ReadResult | CaptuneError, object], path: Path, memory_mib: int) -> None:
    if sys.platform == "linux":
        limit = memory_mib * MIB
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outcome: ReadResult | CaptuneError
    try:
        outcome = read(path)
    except CaptuneError as error:
        outcome = error
    except MemoryError:
        outcome = BadInput(f"it cannot be read within {memory_mib} MiB of memory")
    except Exception as error:  # the child ends here: a reader that stumbles refuses the file
        outcome = BadInput(f"it cannot be read ({type(error).__name__})")
    sender.send(outcome)
    sender.close()
