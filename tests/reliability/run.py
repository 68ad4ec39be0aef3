"""Kills, crowds and faults: what the services promise when things go wrong, tried on this machine.

    python -m tests.reliability.run --kills 100 --clients 200 --seconds 120 --outage 30

Writes docs/reliability.md; a promise that was broken is a line there, and exit code 1. Each part has a time limit, and
no process stays behind.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.reliability import faults
from tests.reliability.crowding import crowding
from tests.reliability.kills import kills
from tests.reliability.postgres import postgres
from tests.reliability.report import PAGE, Part, say, write

LIMIT_S = 480.0
"""A part that takes longer has failed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="half of them on SQLite, half on PostgreSQL")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120, help="how long the crowd stays")
    parser.add_argument(
        "--outage", type=float, default=30, help="seconds for which PostgreSQL and the Ray head are gone"
    )
    parser.add_argument("--only", choices=list(PARTS), action="append", help="this part alone; may be repeated")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the figures go")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminated)
    started_s = time.monotonic()
    parts = [_run(name, partial(part, asked)) for name, part in PARTS.items() if not asked.only or name in asked.only]
    command = " ".join(["python -m tests.reliability.run", *sys.argv[1:]])
    write(parts, command, time.monotonic() - started_s, asked.page)
    sys.stdout.write(asked.page.read_text())
    sys.exit(0 if all(part.well for part in parts) else 1)


def _kills_sqlite(asked: argparse.Namespace) -> Part:
    return kills("SQLite", None, asked.kills // 2, seed=1)


def _kills_postgres(asked: argparse.Namespace) -> Part:
    with postgres() as server:
        return kills("PostgreSQL", server.url, asked.kills - asked.kills // 2, seed=2)


PARTS: dict[str, Callable[[argparse.Namespace], Part]] = {
    "crowd": lambda asked: crowding(asked.clients, asked.seconds),
    "disk": lambda asked: faults.disk_full(),
    "database": lambda asked: faults.database_gone(asked.outage),
    "ray": lambda asked: faults.ray_gone(asked.outage),
    "kills-sqlite": _kills_sqlite,
    "kills-postgresql": _kills_postgres,
}


def _run(name: str, part: Callable[[], Part]) -> Part:
    say(f"{name}: begins")
    started_s = time.monotonic()
    try:
        with _limited(LIMIT_S):
            done = part()
    except Exception as error:  # a part ends here: whatever it was becomes a line of the report
        traceback.print_exc()
        done = Part(name, "", error=f"{type(error).__name__}: {error}")
    done.took_s = time.monotonic() - started_s
    say(f"{name}: {'kept' if done.well else 'BROKEN'} in {done.took_s:.0f} s")
    for text, kept in done.promises:
        if not kept:
            say(f"{name}: broken: {text}")
    return done


class TookTooLong(Exception):
    """A part reached its limit. No TimeoutError: an HTTP client would take that for its own, and try again."""


@contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    def expired(_signal: int, _frame: object) -> None:
        raise TookTooLong(f"longer than {limit_s:g} s")

    signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _terminated(_signal: int, _frame: object) -> None:
    sys.exit(143)  # unwinds, so that every process is stopped


if __name__ == "__main__":
    main()
