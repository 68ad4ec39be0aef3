"""zstd streams, unpacked piece by piece by what this machine has: Python 3.14, or the system's library."""

from __future__ import annotations

import ctypes
import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

try:
    _module: Any = importlib.import_module("compression.zstd")  # Python 3.14
except ImportError:
    _module = None
DAMAGED: tuple[type[Exception], ...] = (_module.ZstdError,) if _module else ()
"""What reading a damaged stream can raise beside EOFError and OSError."""
_LIBRARIES = ("libzstd.so.1", "libzstd.1.dylib", "libzstd.dylib")
_PIECE_BYTES = 1 << 20


def opener() -> Callable[[Path], IO[bytes]] | None:
    """How to open a zstd file for reading; None where nothing here can unpack one."""
    if _module is not None:
        return cast(Callable[[Path], IO[bytes]], _module.open)
    library = _system_library()
    if library is None:
        return None
    return lambda path: cast(IO[bytes], io.BufferedReader(_Stream(library, path), _PIECE_BYTES))


class _Buffer(ctypes.Structure):
    """`ZSTD_inBuffer` and `ZSTD_outBuffer` of zstd.h: pointer, size, position."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


def _system_library() -> Any | None:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            library.ZSTD_createDStream.restype = ctypes.c_void_p
            library.ZSTD_freeDStream.argtypes = (ctypes.c_void_p,)
            library.ZSTD_decompressStream.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
            library.ZSTD_decompressStream.restype = ctypes.c_size_t
            library.ZSTD_isError.argtypes = (ctypes.c_size_t,)
            library.ZSTD_getErrorName.argtypes = (ctypes.c_size_t,)
            library.ZSTD_getErrorName.restype = ctypes.c_char_p
        except (OSError, AttributeError):
            continue
        return library
    return None


class _Stream(io.RawIOBase):
    """A file unpacked by the system's libzstd; never more than one piece of it is in memory."""

    def __init__(self, library: Any, path: Path) -> None:
        self._library = library
        self._file = path.open("rb")
        self._state = library.ZSTD_createDStream()
        self._packed = b""
        self._input = _Buffer(None, 0, 0)
        self._open_frame = True

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        view = memoryview(target)
        out = (ctypes.c_char * len(view)).from_buffer(view)
        output = _Buffer(ctypes.addressof(out), len(view), 0)
        while output.position == 0:
            if self._input.position == self._input.size and not self._refill():
                if self._open_frame:
                    raise EOFError("the last zstd frame is not complete")
                return 0
            left = self._library.ZSTD_decompressStream(self._state, ctypes.byref(output), ctypes.byref(self._input))
            if self._library.ZSTD_isError(left):
                raise OSError(self._library.ZSTD_getErrorName(left).decode())
            self._open_frame = left != 0
        return int(output.position)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._library.ZSTD_freeDStream(self._state)
        super().close()

    def _refill(self) -> bool:
        self._packed = self._file.read(_PIECE_BYTES)
        address = ctypes.cast(ctypes.c_char_p(self._packed), ctypes.c_void_p)
        self._input = _Buffer(address, len(self._packed), 0)
        return bool(self._packed)
