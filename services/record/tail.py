"""LogTail: the lines that a growing log gains, across rotation by renaming and by truncation."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from workloads.errors import BadInput

READ_BYTES = 8 << 20
MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Grown:
    """Whole lines that came, and what happened to the file meanwhile."""

    lines: bytes
    events: tuple[str, ...] = field(default=())


class LogTail:
    """Follow a file by name. A renamed file is read to its end before its successor is opened.

    Raises:
        BadInput: the file cannot be opened at the start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._missing = False
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise BadInput(f"cannot be opened: {error.strerror}", file=str(path)) from None

    def close(self) -> None:
        self._file.close()

    def read(self) -> Grown:
        """What came since the last call, at most about READ_BYTES."""
        data = self._file.read(READ_BYTES)
        if len(data) == READ_BYTES:
            return Grown(self._whole(data))
        events = self._look()
        return Grown(self._whole(data), events)

    def _look(self) -> tuple[str, ...]:
        """Is it still the same file? Called at its end."""
        try:
            now = os.stat(self._path)
        except OSError:
            if self._missing:
                return ()
            self._missing = True
            return ("the log is gone; waiting for its successor",)
        mine = os.fstat(self._file.fileno())
        if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino):
            try:
                successor = self._path.open("rb")
            except OSError:
                return ()
            self._file.close()
            self._file, self._missing = successor, False
            return ()
        self._missing = False
        if now.st_size < self._file.tell():
            self._file.seek(0)
            self._rest = b""
            return ("the log was cut; lines written just before that may be lost",)
        return ()

    def _whole(self, data: bytes) -> bytes:
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:] if len(data) - end <= MAX_LINE_BYTES else b""
        return data[:end]
