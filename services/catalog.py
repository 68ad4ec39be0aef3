"""What a name stands for: traces by file or stored id, profiles by file, shipped name, stored id or name.

The store is handed in, as it is or as a way to open it, and is asked last: a command about a file touches no database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cost_profile import CostProfile
from tuner.profile_file import parse_profile, read_profile
from workloads.errors import BadInput, NotFound
from workloads.traces.mapping import ColumnMapping
from workloads.traces.read import read
from workloads.traces.records import ReadResult

if TYPE_CHECKING:
    from db.store import Store

    StoreSource = Store | Callable[[], Store] | None

DEFAULT_PROFILE = "h200-llama-3.1-8b"
"""Step times for simulating a request trace when no profile is named; every use is reported."""


def find_traffic(
    source: str, store: StoreSource = None, *, mapping: ColumnMapping | None = None, format: str | None = None
) -> tuple[ReadResult, str]:
    """The traffic behind SOURCE and its name.

    Args:
        source: a file, or the id of a stored trace.
        store: the store, or how to open it; None looks at files only.

    Raises:
        BadInput: the file is not understood, or there is neither file nor stored trace.
    """
    path = Path(source)
    if path.is_file() and _is_parquet(path):
        return _read_apart(path, mapping, format), path.name
    if path.exists():
        return read(path, mapping=mapping, format=format), path.name
    with _opened(store) as opened:
        if opened is None:
            raise BadInput("no such file", file=source)
        try:
            return opened.traces.load(source), opened.traces.get(source).name
        except NotFound:
            raise BadInput("neither a file nor the id of a stored trace", file=source) from None


def find_profile(reference: str, store: StoreSource = None, *, files: bool = True) -> CostProfile:
    """The profile behind P.

    Args:
        reference: a file, the name of a shipped profile, or the id or name of a stored one.
        files: whether a file may be meant; a server must not read files that a client names.

    Raises:
        BadInput: the file is not a profile.
        NotFound: nothing has that name; names what there is.
    """
    path = Path(reference)
    if files and (path.suffix == ".json" or path.is_file()):
        return read_profile(path)
    shipped = {profile.name: profile for profile in shipped_profiles()}
    if reference in shipped:
        return shipped[reference]
    with _opened(store) as opened:
        stored = None if opened is None else opened.profiles.find(reference)
    if stored is not None:
        return parse_profile(stored.document, file=stored.name)
    raise NotFound(f"there is no profile '{reference}'; shipped: {', '.join(shipped) or 'none'}", field="profile")


@cache
def shipped_profiles() -> tuple[CostProfile, ...]:
    """Profiles recorded on real GPUs that come with Captune, by name."""
    folder = resources.files("profiles")
    files = [item for item in folder.iterdir() if item.name.endswith(".json")]
    return tuple(sorted((parse_profile(file.read_bytes(), file=file.name) for file in files), key=lambda one: one.name))


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False  # the reader says why


def _read_apart(path: Path, mapping: ColumnMapping | None, format: str | None) -> ReadResult:
    """Parquet in a child process: a damaged page ends the process that decodes it, which must not be the user's."""
    from services.reader_pool import ReaderPool, ReadLimits

    pool = ReaderPool(ReadLimits(timeout_s=3600, memory_mib=64 * 1024, unpacked_mib=64 * 1024))
    try:
        return pool.read(path, str(path), mapping, format)
    finally:
        pool.close()


@contextmanager
def _opened(store: StoreSource) -> Iterator[Store | None]:
    if store is None or not callable(store):
        yield store
        return
    with store() as opened:
        yield opened
