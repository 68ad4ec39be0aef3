"""What an API needs to do its work: the database, a disk with room, and Ray where a cluster is configured."""

from __future__ import annotations

import os
from collections.abc import Callable

from db.store import Store
from services.knock import refusal
from workloads.errors import Unavailable

RAY_PATIENCE_S = 1.0


def check_ready(store: Store) -> None:
    """Look at everything.

    Raises:
        Unavailable: what is missing, all of it in one sentence.
    """
    missing = [reason for look in (store.check, store.traces.check, check_ray) if (reason := _reason(look)) is not None]
    if missing:
        raise Unavailable("; ".join(missing))


def check_ray() -> None:
    """Whether the head that RAY_ADDRESS names takes connections; without the variable every job has a Ray of its own.

    Raises:
        Unavailable: it does not.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    reason = refusal(address, RAY_PATIENCE_S)
    if reason is not None:
        raise Unavailable(f"the Ray head at {address} does not answer ({reason})")


def _reason(look: Callable[[], None]) -> str | None:
    try:
        look()
    except Unavailable as error:
        return str(error)
    return None
