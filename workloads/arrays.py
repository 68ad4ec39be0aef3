"""Array types used in signatures, and the two checks that every column gets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.errors import BadInput

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]


def as_sizes(values: object, *, field: str = "sizes") -> I64:
    """A sorted, duplicate-free int64 array of positive sizes, from any sequence of whole numbers.

    Raises:
        BadInput: a value is not a whole number of at least 1.
    """
    raw = np.atleast_1d(np.asarray(values))
    if raw.size == 0:
        return np.empty(0, dtype=np.int64)
    if raw.dtype.kind not in "iuf" or not np.all(np.isfinite(raw)) or np.any(raw != np.floor(raw)):
        raise BadInput("sizes must be whole numbers", field=field)
    sizes = np.unique(raw.astype(np.int64))
    if sizes[0] < 1:
        raise BadInput(f"a size must be at least 1, not {sizes[0]}", field=field)
    return sizes


def frozen(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    """Make a column read-only, so that a frozen dataclass is frozen all the way down."""
    array.flags.writeable = False
