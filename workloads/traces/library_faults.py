"""What polars raises where it fails, and whether a want of memory was the reason."""

from __future__ import annotations

import re

import polars as pl

FAULTS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""A panic of the library is no `Exception`; both are caught wherever a file is parsed."""

# A thread that cannot be started (EAGAIN, 11) has found no room for its stack; ENOMEM is 12.
_OF_MEMORY = re.compile(r"out of memory|memory alloc|allocate memory|os error 1[12]\b|code: 1[12]\b|AllocError", re.I)
_MAX_WORDS = 200


def raise_if_memory(error: BaseException) -> None:
    """To be asked before a file is blamed for what a library raised.

    Raises:
        MemoryError: the error is one, or speaks of memory or of threads that cannot be started.
    """
    if isinstance(error, MemoryError) or _OF_MEMORY.search(f"{error!r} {error}"):
        raise MemoryError(str(error)) from error


def words_of(error: BaseException) -> str:
    """What a library said, shortened, for a sentence that can say nothing better."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _MAX_WORDS else text[:_MAX_WORDS].rstrip() + " ..."
