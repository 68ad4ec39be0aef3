"""Notice that the head of the Ray cluster is gone, before Ray ends the process in its own way.

A driver waits a minute for a lost head and is then killed where it stands, without an exception. So a thread knocks at
the head's port; what it finds reaches the sweep's process as a typed error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from services.knock import refusal
from workloads.errors import Unavailable

GiveUp = Callable[[Unavailable], None]

KNOCK_EVERY_S = 1.0
KNOCK_PATIENCE_S = 2.0
LOST_AFTER_S = 5.0


@contextmanager
def head_watched(ray: Any, give_up: GiveUp | None) -> Iterator[None]:
    """Call `give_up` from a thread when the head of the connected cluster has not answered for some seconds."""
    if give_up is None:
        yield
        return
    address = str(ray.get_runtime_context().gcs_address)
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(address, done, give_up), name="ray head", daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def _watch(address: str, done: threading.Event, give_up: GiveUp) -> None:
    heard_at_s = time.monotonic()
    while not done.wait(KNOCK_EVERY_S):
        if refusal(address, KNOCK_PATIENCE_S) is None:
            heard_at_s = time.monotonic()
        elif time.monotonic() - heard_at_s > LOST_AFTER_S:
            give_up(Unavailable(f"the head of the Ray cluster at {address} was lost", field="RAY_ADDRESS"))
            return
