"""The one place where numba is configured: compiled on first use, cached on disk, no Python objects and no lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a numeric function with numba; the first call costs about a second, later processes read the cache.

    Other threads of Python run meanwhile, so an array that is handed in must not change under it.
    """
    jitted: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return jitted
