"""Read ahead: the next block is unpacked and checked while this one is parsed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_END = object()


def prefetched(items: Iterator[T]) -> Iterator[T]:
    """The same items in order, each made one ahead in a thread; what making one raises is raised in its place."""
    with ThreadPoolExecutor(1, thread_name_prefix="captune-read-ahead") as ahead:
        coming = ahead.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = ahead.submit(next, items, _END)
            yield item  # type: ignore[misc]
