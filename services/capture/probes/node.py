"""What an engine finds on the node of a Ray cluster that it runs on: variables, a folder, and nobody of before.

Ray changes the variables of its workers (2.60: `OMP_NUM_THREADS=1` for an actor of one core, `PYTHONBREAKPOINT`,
`PYTHONPATH` with the packages of the job, `LD_PRELOAD` with its jemalloc, many `RAY_...`), and an engine that inherited
them would not be the engine that the user starts. So it begins with the variables of the raylet, which are those of
the node's `ray start`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

MARK = "PROBED_ENGINE_FOLDER"
"""Names its folder in the variables of an engine, and so of everything that it starts."""

_GPUS = "CUDA_VISIBLE_DEVICES"
_RAYS_PRELOAD = "RAY_LD_PRELOAD_ON_WORKERS"  # stands in a raylet's variables where its LD_PRELOAD is Ray's jemalloc
_GONE_S = 20.0


def node_folder(key: str, gpu: str) -> Path:
    """Config, log and compiled code of one experiment on one GPU; outlives the worker.

    Args:
        key: of the experiment; what is compiled for one must not be used by another.
        gpu: unlike every other, since nodes may share a home.
    """
    home = os.environ.get("XDG_CACHE_HOME")
    base = Path(home) if home else Path.home() / ".cache"
    return base / "captune" / "engine" / key / gpu.replace(" ", "-")


def node_environment(folder: Path, ours: Path) -> dict[str, str]:
    """The node's own variables, with the GPUs that Ray gave to this worker. Call it in a worker.

    Args:
        folder: marks whose engine it is.
        ours: the packages of this command, which a Ray of its own has on its path; an engine needs nothing of them.
    """
    node = _variables(os.getppid()) or dict(os.environ)
    kept = {name: value for name, value in node.items() if not name.startswith("RAY_")}
    if _RAYS_PRELOAD in node:
        kept.pop("LD_PRELOAD", None)
    paths = [path for path in kept.pop("PYTHONPATH", "").split(os.pathsep) if path not in ("", str(ours))]
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(paths)
    if _GPUS in os.environ:
        kept[_GPUS] = os.environ[_GPUS]
    return kept | {MARK: str(folder)}


def end_leftovers(folder: Path) -> None:
    """Kill every process of an engine of this folder, and wait until none is left."""
    deadline_s = time.monotonic() + _GONE_S
    while (found := list(_engines_of(folder))) and time.monotonic() < deadline_s:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def rest_of(log: Path, from_byte: int) -> bytes:
    """End the engine that a lost worker left, as a task on its node; what that engine had still printed.

    Args:
        log: in the engine's folder.
    """
    end_leftovers(log.parent)
    return bytes_from(log, from_byte)


def bytes_from(log: Path, from_byte: int) -> bytes:
    """What was appended; nothing where there is no file."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(from_byte)
        return file.read()
    return b""


def _engines_of(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and _variables(int(entry.name)).get(MARK) == str(folder):
            yield int(entry.name)


def _variables(pid: int) -> Mapping[str, str]:
    """As the process was started with; nothing for one that is gone, is a zombie, or belongs to another user."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return {}
    return dict(item.split("=", 1) for item in text.split("\0") if "=" in item)
