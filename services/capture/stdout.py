"""Keep stdout for our own result: Ray and native libraries print to file descriptor 1 whenever they like."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def protected_stdout() -> Iterator[TextIO]:
    """Point fd 1 at stderr for the duration and yield a stream on the real stdout.

    Whatever any library, thread or child process started inside writes to stdout arrives on stderr. Enter it before
    Ray starts and leave it after Ray has stopped.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    private = os.fdopen(os.dup(saved), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        yield private
    finally:
        private.close()
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
