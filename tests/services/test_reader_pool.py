"""Reader children: reused, and ended when a file breaks their limits."""

from __future__ import annotations

import contextlib
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from services.reader_pool import ReaderPool, ReadLimits
from workloads.errors import BadInput, BadUsage, Unavailable
from workloads.traces.arrivals import ArrivalProcess
from workloads.traces.library_faults import raise_if_memory
from workloads.traces.mapping import ColumnMapping
from workloads.traces.read import read

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
LOG = "[2025-11-11 04:06:27] Decode batch, #running-req: 46, #token: 812, token usage: 0.01, #queue-req: 0, \n"


@pytest.fixture
def pool() -> Iterator[ReaderPool]:
    pool = ReaderPool(ReadLimits(timeout_s=20, memory_mib=3000, unpacked_mib=8), keep=1)
    yield pool
    pool.close()


def child_of(pool: ReaderPool) -> int | None:
    return pool._idle[0].process.pid if pool._idle else None


def test_a_child_is_reused_and_gives_what_reading_here_gives(pool: ReaderPool, tmp_path: Path) -> None:
    path = tmp_path / "upload"
    pids = set()
    for text in (HEAD + "2023-11-16 18:15:46.68,5,6\n2023-11-16 18:15:47.68,0,6\n", LOG, "size,count\n1,10\n2,20\n"):
        path.write_text(text)
        there, here = pool.read(path, "mine"), read(path)
        assert (there.format, there.kind, there.rows, there.notes) == (here.format, here.kind, here.rows, here.notes)
        assert there.observation == here.observation
        assert there.traffic.digest() == here.traffic.digest()
        pids.add(child_of(pool))
    assert len(pids) == 1


def test_an_error_names_the_file_as_the_user_does_and_keeps_the_child(pool: ReaderPool, tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_text(HEAD + "2023-11-16 18:15:46.68,-5,6\n")
    with pytest.raises(BadInput) as caught:
        pool.read(path, "mine.csv")
    assert (caught.value.file, caught.value.line, caught.value.field) == ("mine.csv", 2, "ContextTokens")
    first = child_of(pool)
    with pytest.raises(BadUsage, match="splunk"):
        pool.read(path, "mine.csv", format="splunk")
    assert first is not None and child_of(pool) == first


def test_a_mapping_crosses_the_pipe(pool: ReaderPool, tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_text("a,b\n" + "10,2\n" * 50)
    mapping = ColumnMapping(None, "a", "b", arrivals=ArrivalProcess("gamma", 3.0, cv=2.0, seed=5))
    assert pool.read(path, "mine", mapping).traffic.digest() == read(path, mapping=mapping).traffic.digest()
    assert pool.propose(path, "mine").columns[0].name == "a"


def test_unpacked_size_is_limited(pool: ReaderPool, tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(gzip.compress(HEAD.encode() + b"2023-11-16 18:15:46.68,5,6\n" * 1_000_000))
    with pytest.raises(BadInput, match="more than 8 MiB unpacked"):
        pool.read(path, "bomb.gz")


def test_a_slow_file_costs_its_child(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_text(HEAD + "2023-11-16 18:15:46.68,5,6\n" * 2_000_000)
    pool = ReaderPool(ReadLimits(timeout_s=0.05, memory_mib=3000))
    with pytest.raises(BadInput, match=r"took longer than 0\.05 s"):
        pool.read(path, "slow.csv")
    assert child_of(pool) is None


def test_a_parquet_page_that_ends_its_reader_costs_one_child(tmp_path: Path, pool: ReaderPool) -> None:
    good, broken = tmp_path / "good", tmp_path / "broken"
    frame = pl.DataFrame({"arrival_s": [0.0, 1.0], "input_tokens": [5, 6], "output_tokens": [1, 2]})
    frame.write_parquet(good, compression="uncompressed")
    data = good.read_bytes()
    for at in range(4, 60):  # headers of the first page
        broken.write_bytes(data[:at] + b"\xff\xff" + data[at + 2 :])
        with contextlib.suppress(BadInput):
            pool.read(broken, "broken")
    assert pool.read(good, "good").rows.kept == 2


def least_mib() -> int:
    pool = ReaderPool(ReadLimits(timeout_s=60, memory_mib=1))
    with pytest.raises(Unavailable) as caught:
        pool.read(Path(__file__), "any.csv")
    pool.close()
    found = re.fullmatch(
        r"any\.csv: no file can be read: a reader needs at least (\d+) MiB of memory and is allowed 1 MiB; "
        r"the operator sets CAPTUNE_PARSE_MEMORY_MIB",
        str(caught.value),
    )
    assert found
    return int(found[1])


def test_a_limit_below_what_the_libraries_need_is_refused_at_once(tmp_path: Path) -> None:
    path, least = tmp_path / "upload", least_mib()
    path.write_text(LOG)
    short = ReaderPool(ReadLimits(timeout_s=60, memory_mib=least - 64))
    with pytest.raises(Unavailable, match=f"at least {least} MiB"):
        short.propose(path, "small.log")
    short.close()
    enough = ReaderPool(ReadLimits(timeout_s=60, memory_mib=least))
    assert enough.read(path, "small.log").rows.kept == 1
    enough.close()


def test_too_little_memory_is_one_sentence(tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_text(HEAD + "2023-11-16 18:15:46.68,5,6\n" * 2_000_000)
    small.write_text(LOG)
    least = least_mib()
    for limit_mib in (least, least + 24, least + 64):
        pool = ReaderPool(ReadLimits(timeout_s=60, memory_mib=limit_mib))
        with pytest.raises(BadInput, match=f"cannot be read within {limit_mib} MiB of memory") as caught:
            pool.read(large, "large.csv")
        assert caught.value.line is None  # memory ran out: no line is to blame
        assert pool.read(small, "small.log").rows.kept == 1
        pool.close()


@pytest.mark.parametrize(
    "words",
    [
        'called `Result::unwrap()` on an `Err` value: Os { code: 11, kind: WouldBlock, message: "Resource temporarily '
        'unavailable" }',
        'ThreadPoolBuildError { kind: IOError(Os { code: 12, kind: OutOfMemory, message: "Cannot allocate memory" }) }',
        "Cannot allocate memory (os error 12)",
        "memory allocation of 1520 bytes failed",
    ],
)
def test_a_library_without_memory_does_not_blame_the_file(words: str) -> None:
    with pytest.raises(MemoryError):
        raise_if_memory(pl.exceptions.PanicException(words))
    raise_if_memory(pl.exceptions.ComputeError("found more fields than defined in 'Schema' at line 12"))
