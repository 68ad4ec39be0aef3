"""Work ahead in threads: blocks are unpacked and parsed while the ones before them are still looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_END = object()


def prefetched(items: Iterator[T]) -> Iterator[T]:
    """The same items in order, each made one ahead in a thread; what making one raises is raised in its place."""
    with ThreadPoolExecutor(1, thread_name_prefix="captune-read-ahead") as ahead:
        coming = ahead.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = ahead.submit(next, items, _END)
            yield item  # type: ignore[misc]


def mapped_ahead(function: Callable[[T], R], items: Iterator[T], threads: int) -> Iterator[R]:
    """`function` of every item, in order; `threads` of them are worked on at a time, and no more are held than that.

    Worth it only where `function` spends its time in code that lets other threads run. Items are made in the caller's
    thread; what making one or the function raises is raised in its place.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="captune-map-ahead") as pool:
        coming: deque[Future[R]] = deque()
        for item in items:
            if len(coming) == threads:
                yield coming.popleft().result()
            coming.append(pool.submit(function, item))
        while coming:
            yield coming.popleft().result()
