"""Uploads made to do harm: each is refused with a 4xx, in bounded time and memory, and nothing of it is stored."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import resource
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest
from starlette.testclient import TestClient

from db.store import Store
from services.api.app import create_app
from services.settings import Settings

MIB = 1024 * 1024
LIMIT_S = 20.0
LIMIT_GROWTH_MIB = 256
TABLE = b"arrival_s,input_tokens,output_tokens\n"
GOOD = TABLE + b"0.5,100,10\n1.5,120,20\n"
MARKER = "CAPTUNE_HOSTILE_MARKER"
BOUNDARY = "b"


class Touch:
    """Unpickled, it makes a file."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch ${MARKER}",)


@dataclass(frozen=True)
class Hostile:
    """A request body as it goes over the wire."""

    body: bytes
    content_type: str = f"multipart/form-data; boundary={BOUNDARY}"


def part(content: bytes, file: bytes = b"day.csv", field: bytes = b"file") -> bytes:
    head = b'Content-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n' % (field, file)
    return b"--b\r\n" + head + content + b"\r\n"


def form(content: bytes, file: bytes = b"day.csv") -> Hostile:
    return Hostile(part(content, file) + b"--b--\r\n")


def zip_bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("day.csv", TABLE + b"1,1,1\n" * (16 * MIB))
    return file.getvalue()


def endless(head: bytes, block: bytes, times: int) -> bytes:
    """gzip of `head` and `times` blocks, made without ever holding them."""
    maker = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = maker.compress(head) + maker.flush(zlib.Z_FULL_FLUSH)
    one = maker.compress(block) + maker.flush(zlib.Z_FULL_FLUSH)
    return start + one * times


def parquet() -> bytes:
    file = io.BytesIO()
    table = pl.DataFrame({"arrival_s": [0.5, 1.5] * 500, "input_tokens": [100] * 1000, "output_tokens": [10] * 1000})
    table.write_parquet(file)
    return file.getvalue()


def patched(content: bytes, at: int, by: bytes) -> bytes:
    at %= len(content)
    return content[:at] + by + content[at + len(by) :]


def json_lines(number: str) -> bytes:
    return f'{{"arrival_s": {number}, "input_tokens": 100, "output_tokens": 10}}\n'.encode() * 3


HOSTILE: dict[str, Callable[[], Hostile]] = {
    "zip bomb": lambda: form(zip_bomb(), b"day.zip"),
    "gzip bomb": lambda: form(endless(TABLE, b"0" * MIB, 6000), b"day.csv.gz"),
    "nested gzip": lambda: form(gzip.compress(gzip.compress(GOOD)), b"day.csv.gz"),
    "folders in the name": lambda: form(GOOD, b"../../../etc/cron.d/day.csv"),
    "absolute name": lambda: form(GOOD, b"/etc/passwd"),
    "name of Windows": lambda: form(GOOD, b"..\\..\\day.csv"),
    "NUL in the name": lambda: form(GOOD, b"day\x00.csv"),
    "line end in the name": lambda: form(GOOD, b"day\x0b.csv"),
    "name of 4 kB": lambda: form(GOOD, b"d" * 4096),
    "number of 1e9 digits": lambda: form(endless(TABLE + b"0.5,1", b"0" * MIB, 954), b"day.csv.gz"),
    "NUL bytes": lambda: form(TABLE + b"0.5,1\x000,10\n"),
    "invalid UTF-8": lambda: form(TABLE + b"0.5,\xff\xfe,10\n"),
    "formula in a number": lambda: form(TABLE + b"0.5,=cmd|' /C calc'!A0,10\n"),
    "formula in the header": lambda: form(b'=HYPERLINK("http://x"),count\n1,2\n'),
    "formula as a size": lambda: form(b"size,count\n=1+1,2\n"),
    "pickle": lambda: form(pickle.dumps(Touch()), b"day.pkl"),
    "pickle called a table": lambda: form(pickle.dumps(Touch())),
    "YAML tag": lambda: form(f'!!python/object/apply:os.system ["touch ${MARKER}"]\n'.encode(), b"day.yaml"),
    "YAML aliases": lambda: form(b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", b"day.yaml"),
    "deep JSON lists": lambda: form(b"[" * 500_000, b"day.json"),
    "deep JSON objects": lambda: form(b'{"requests":' * 100_000 + b"1" + b"}" * 100_000, b"day.json"),
    "JSON number 1e999": lambda: form(json_lines("1e999"), b"day.jsonl"),
    "JSON NaN": lambda: form(json_lines("NaN"), b"day.jsonl"),
    "JSON number of 10,000 digits": lambda: form(json_lines("9" * 10_000), b"day.jsonl"),
    "Parquet footer that lies": lambda: form(patched(parquet(), -8, b"\xf0\xff\xff\xff"), b"day.parquet"),
    "Parquet pages that lie": lambda: form(patched(parquet(), 4, b"\x15\x00\x15" + b"\xff" * 40), b"day.parquet"),
    "Parquet of nothing": lambda: form(b"PAR1" + b"\xff" * 64 + b"PAR1", b"day.parquet"),
    "no file": lambda: Hostile(b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nx\r\n--b--\r\n'),
    "two files": lambda: Hostile(part(GOOD) + part(GOOD + b"2.5,1,1\n") + b"--b--\r\n"),
    "another file beside it": lambda: Hostile(part(GOOD) + part(GOOD, field=b"second") + b"--b--\r\n"),
    "no boundary": lambda: Hostile(form(GOOD).body, "multipart/form-data"),
    "wrong boundary": lambda: Hostile(form(GOOD).body, "multipart/form-data; boundary=other"),
    "form that does not end": lambda: Hostile(part(GOOD)[:-10]),
    "no form": lambda: Hostile(GOOD, "text/csv"),
}


@dataclass(frozen=True)
class Served:
    """An API over an empty store."""

    client: TestClient
    data: Path
    marker: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    base = Settings(f"sqlite:///{folder / 'captune.db'}", folder / "data")
    settings = replace(base, max_upload_bytes=16 * MIB, parse_timeout_s=LIMIT_S, parse_memory_mib=1024)
    with pytest.MonkeyPatch.context() as patch, Store(settings.database_url, settings.data_dir) as store:
        patch.setenv(MARKER, str(folder / "marker"))
        with TestClient(create_app(settings, store)) as client:
            yield Served(client, settings.data_dir, folder / "marker")


# Starlette leaves the spooled file of a form that breaks off to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_and_leaves_nothing_behind(served: Served, name: str) -> None:
    hostile = HOSTILE[name]()
    before_mib = _peak_mib()
    started_s = time.monotonic()
    answer = served.client.post("/api/v1/traces", content=hostile.body, headers={"Content-Type": hostile.content_type})
    took_s = time.monotonic() - started_s
    assert 400 <= answer.status_code < 500, answer.text
    problem = answer.json()
    assert problem["detail"] and len(problem["detail"]) < 500 and problem["detail"].isprintable()
    assert took_s < LIMIT_S and _peak_mib() - before_mib < LIMIT_GROWTH_MIB
    assert served.client.get("/api/v1/traces").json()["items"] == []
    assert not list(served.data.rglob("*.parquet")) and not list(served.data.rglob("*.part"))
    assert not served.marker.exists()


def test_what_only_looks_hostile_is_data(served: Served) -> None:
    table = b"arrival_s,input_tokens,output_tokens,prompt\n0.5,100,10,=cmd|' /C calc'!A0\n1.5,120,20,!!python/x\n"
    answer = served.client.post("/api/v1/traces", files={"file": ("day.csv", table)})
    assert answer.status_code == 201 and answer.json()["rows_kept"] == 2
    assert "calc" not in answer.text
    assert all(b"calc" not in file.read_bytes() for file in served.data.rglob("*.parquet"))


def _peak_mib() -> float:
    """Most memory that this process ever had; a reader child has a limit of its own."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
