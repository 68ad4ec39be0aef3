"""Source: a file as blocks of whole lines, unpacked, bounded, and refused early when it is no text.

Nothing here loads a file: at most two blocks are held. Rows are bounded before any parser sees them, because one
3-GB line costs polars 14 GiB.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

from workloads.errors import BadInput
from workloads.traces import zstd

BLOCK_BYTES = 8 << 20
MAX_ROW_BYTES = 1 << 20
MAX_BYTES = 8 << 30

_PACKED: dict[bytes, str] = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_NOT_TRACES: dict[bytes, str] = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive",
    b"\x7fELF": "an executable",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}
_DAMAGED: tuple[type[Exception], ...] = (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, *zstd.DAMAGED)
_UTF8_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file, each ended by a newline; `first_line` is 1-based."""

    data: bytes
    first_line: int


class Source:
    """A readable file.

    Args:
        path: the file.
        max_bytes: most unpacked bytes that are read; a larger file is refused.

    Raises:
        BadInput: missing, empty, not a regular file, packed in a way that cannot be unpacked, or plainly not text.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self.max_bytes = max_bytes
        if path.is_dir():
            raise self.bad("this is a directory; name one trace file")
        if not path.exists():
            raise self.bad("there is no such file")
        if not path.is_file():
            raise self.bad("this is not a regular file")
        try:
            with path.open("rb") as file:
                self._magic = file.read(16)
        except OSError as error:
            raise self.bad(f"cannot be opened: {error.strerror}") from error
        if not self._magic:
            raise self.bad("the file is empty")

    def bad(self, message: str, *, line: int | None = None, field: str | None = None) -> BadInput:
        """A BadInput that names this file, in one printable line whatever a value in the message holds."""
        return BadInput(_one_line(message), file=str(self.path), line=line, field=field and _one_line(field))

    @property
    def packed(self) -> str | None:
        """`gzip`, `bzip2`, `xz` or `zstd`, told by the first bytes; None for a plain file."""
        return next((name for magic, name in _PACKED.items() if self._magic.startswith(magic)), None)

    @property
    def is_parquet(self) -> bool:
        return self._magic.startswith(b"PAR1")

    @cached_property
    def head(self) -> str:
        """The first whole lines, up to 1 MiB, for recognition; bytes that are not UTF-8 are replaced."""
        block = next(self.blocks(utf8=False), None)
        if block is None:
            raise self.bad("the file is empty")
        data = block.data
        if len(data) > MAX_ROW_BYTES:
            data = data[: data.rfind(b"\n", 0, MAX_ROW_BYTES) + 1] or data[: data.find(b"\n") + 1]
        return data.decode("utf-8", errors="replace")

    @cached_property
    def peek(self) -> bytes:
        """The first unpacked bytes, at most 1 MiB, whatever they are."""
        with self._open() as stream:
            return self._read(stream, 0, MAX_ROW_BYTES).removeprefix(_UTF8_BOM)

    @property
    def is_tar(self) -> bool:
        """A tar archive, packed or not; its members are read by the formats that come as archives."""
        return not self.is_parquet and self.peek[257:262] == b"ustar"

    @property
    def damaged(self) -> tuple[type[Exception], ...]:
        """What reading `stream`, or an archive in it, can raise where it is damaged."""
        return (*_DAMAGED, tarfile.TarError)

    @property
    def is_msgpack(self) -> bool:
        """msgpack messages that begin with a version: an array of at least five, or a map; no text begins so."""
        head = self.peek[:9]
        array = len(head) > 1 and 0x95 <= head[0] <= 0x9F and head[1] < 0x80
        return array or (len(head) == 9 and 0x85 <= head[0] <= 0x8F and head[1:] == b"\xa7version")

    def read_from(self, stream: IO[bytes], done: int, most: int) -> bytes:
        """The next `most` bytes of `stream()`; `done` is how many were read before.

        Raises:
            BadInput: the packing is cut off or damaged.
        """
        return self._read(stream, done, most)

    def stream(self) -> IO[bytes]:
        """The unpacked bytes; the caller bounds how many it reads."""
        return self._open()

    def whole(self, max_bytes: int) -> bytes:
        """All unpacked bytes of a file that is one document.

        Raises:
            BadInput: more than `max_bytes`, damaged packing, or not UTF-8.
        """
        limit = min(max_bytes, self.max_bytes)
        parts: list[bytes] = []
        total = 0
        with self._open() as stream:
            while data := self._read(stream, total):
                total += len(data)
                if total > limit:
                    raise self.bad(f"is one JSON document of more than {limit >> 20} MiB; export it as JSON lines")
                parts.append(data)
        return self._block(b"".join(parts).removeprefix(_UTF8_BOM), 1, True).data

    def blocks(self, *, quoted: bool = False, utf8: bool = True) -> Iterator[Block]:
        """The file's lines, block by block.

        Args:
            quoted: a newline inside double quotes does not end a row, so no block ends there.
            utf8: refuse bytes that are not UTF-8; engine logs, which tear lines under load, are read without.

        Raises:
            BadInput: damaged packing, NUL bytes, a row over 1 MiB, not UTF-8, or more than `max_bytes`.
        """
        tail, line, total, started = b"", 1, 0, False
        with self._open() as stream:
            while data := self._read(stream, total):
                total += len(data)
                if not started:
                    self._refuse_other_files(data)
                    data, started = data.removeprefix(_UTF8_BOM), True
                if total > self.max_bytes:
                    raise self.bad(f"holds more than {self.max_bytes >> 20} MiB unpacked; split it into smaller files")
                if b"\0" in data:
                    raise self.bad("this is a binary file (it has NUL bytes), not a trace")
                buffer = tail + data
                self._bound_rows(buffer, line)
                cut = _last_row_end(buffer, quoted)
                if cut:
                    yield self._block(buffer[:cut], line, utf8)
                    line += buffer.count(b"\n", 0, cut)
                elif len(buffer) > 2 * BLOCK_BYTES:
                    raise self.bad("a quoted field is never closed", line=line)
                tail = buffer[cut:]
        if tail:
            yield self._block(tail if tail.endswith(b"\n") else tail + b"\n", line, utf8)

    def _open(self) -> IO[bytes]:
        opener: Callable[[Path], Any]
        match self.packed:
            case "gzip":
                opener = gzip.open
            case "bzip2":
                opener = bz2.open
            case "xz":
                opener = lzma.open
            case "zstd":
                opener = zstd.open_zstd
            case _:
                opener = lambda path: path.open("rb")  # noqa: E731
        return cast(IO[bytes], opener(self.path))

    def _read(self, stream: IO[bytes], done: int, most: int | None = None) -> bytes:
        try:
            return stream.read(most or BLOCK_BYTES)
        except _DAMAGED as error:
            if isinstance(error, OSError) and error.errno == errno.ENOMEM:
                raise MemoryError(str(error)) from error
            what = f"the {self.packed} data is cut off or damaged" if self.packed else "cannot be read to its end"
            raise self.bad(f"{what} (after {done} unpacked bytes): {error}") from error

    def _refuse_other_files(self, data: bytes) -> None:
        for magic, name in _NOT_TRACES.items():
            if data.startswith(magic):
                raise self.bad(f"this is {name}" + ("" if "UTF-16" in name else ", not a trace"))
        if self.packed and data.startswith(b"PAR1"):
            raise self.bad(f"this is Parquet inside {self.packed}; unpack it first")

    def _bound_rows(self, data: bytes, line: int) -> None:
        start = 0
        while start + MAX_ROW_BYTES < len(data):
            end = data.rfind(b"\n", start, start + MAX_ROW_BYTES + 1)
            if end < 0:
                line += data.count(b"\n", 0, start)
                raise self.bad(f"a row is longer than {MAX_ROW_BYTES >> 20} MiB; this is not a trace", line=line)
            start = end + 1

    def _block(self, data: bytes, line: int, utf8: bool) -> Block:
        if utf8 and not data.isascii():
            try:
                data.decode("utf-8")
            except UnicodeDecodeError as error:
                where = line + data.count(b"\n", 0, error.start)
                raise self.bad(f"not UTF-8 text (byte 0x{data[error.start]:02x})", line=where) from error
        return Block(data, line)


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


def _last_row_end(data: bytes, quoted: bool) -> int:
    cut = data.rfind(b"\n") + 1
    if not quoted or b'"' not in data:
        return cut
    quotes = data.count(b'"', 0, cut)
    while cut and quotes % 2:
        before = data.rfind(b"\n", 0, cut - 1) + 1
        quotes -= data.count(b'"', before, cut)
        cut = before
    return cut
