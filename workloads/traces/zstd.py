"""zstd, which Python has from 3.14 on; before that from a backport with the same interface."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = ("compression.zstd", "backports.zstd")


def _module() -> Any:
    try:
        return importlib.import_module(_NAMES[0])
    except ImportError:
        return importlib.import_module(_NAMES[1])


_zstd = _module()
DAMAGED: tuple[type[Exception], ...] = (_zstd.ZstdError,)
"""What reading a damaged stream can raise beside EOFError and OSError."""
open_zstd = _zstd.open
