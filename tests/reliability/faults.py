"""Faults of what the services stand on: a full disk, a database that is gone, a Ray head that is gone."""

from __future__ import annotations

import errno
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.reliability.postgres import postgres
from tests.reliability.processes import House, house
from tests.reliability.report import Part, say
from tests.reliability.work import Book, histogram, listed

DISK_MIB = 12
NOTICED_S = 20.0
RECOVERED_S = 60.0
ENDED_S = 150.0
TRIALS = 30


def disk_full(full_s: float = 5.0) -> Part:
    """The disk of database and traces has not a block left for `full_s`.

    Raises:
        PermissionError: no tmpfs may be mounted here.
    """
    part = Part("Disk full", f"Database and traces on a tmpfs of {DISK_MIB} MiB that a file fills up for {full_s:g} s.")
    with small_disk() as folder, house(folder=folder) as home, _at_work(home, part):
        ballast = home.data / "ballast"

        def fill() -> None:
            with ballast.open("wb", buffering=0) as file:
                for block_bytes in (2**20, 2**16, 2**12):
                    _write_until_full(file.write, b"\0" * block_bytes)

        _outage(part, home, full_s, "space", begin=fill, end=ballast.unlink)
    return part


def database_gone(outage_s: float) -> Part:
    """PostgreSQL is stopped as in a crash for `outage_s`."""
    part = Part("PostgreSQL gone", f"The server is stopped at once (`-m immediate`) for {outage_s:g} s.")
    with postgres() as server, house(server.url) as home, _at_work(home, part):
        _outage(part, home, outage_s, "database", begin=server.stop, end=server.start)
    return part


def ray_gone(outage_s: float) -> Part:
    """Every process of the Ray head is killed, and nobody starts it again for `outage_s`."""
    part = Part("Ray head gone", f"SIGKILL to every process of the head in mid-measurement; back after {outage_s:g} s.")
    with house(with_ray=True) as home, _at_work(home, part, measured=True) as book:

        def meanwhile() -> None:
            modelled = book.queue()
            found = book.wait_ended([modelled], ENDED_S)[modelled]
            part.promise(
                "a sweep that needs no Ray ran to its end meanwhile", found["state"] == "complete", found["state"]
            )

        _outage(
            part,
            home,
            outage_s,
            "Ray",
            begin=lambda: home.kill_for_good("Ray head"),
            end=lambda: home.start_part("Ray head"),
            meanwhile=meanwhile,
            writes_fail=False,
        )
    return part


@contextmanager
def _at_work(home: House, part: Part, *, measured: bool = False) -> Iterator[Book]:
    """A sweep in the middle of its work; afterwards it must end well, and everything acknowledged be there."""
    book = Book(home)
    sweep_id = book.queue(measured=measured, trials=TRIALS)
    deadline_s = time.monotonic() + ENDED_S
    while not _in_the_middle(book.state(sweep_id), measured):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the sweep did not get to work: {book.state(sweep_id)}")
        time.sleep(0.1)
    book.look_at_trials(sweep_id)
    yield book
    ended = book.wait_ended([sweep_id], ENDED_S)[sweep_id]
    part.promise("the sweep at work ended well", ended["state"] == "complete", (ended["state"], ended["error"]))
    book.look_at_trials(sweep_id)
    whole = len(book.trials[sweep_id]) == TRIALS and not book.contradictions
    part.promise(f"each of {TRIALS} trials is there once, as it was first seen", whole, book.contradictions)
    with home.client() as http:
        again = http.post("/traces", files={"file": ("after.csv", histogram(10**6))})
        part.promise("uploads are taken again", again.status_code == 201, again.status_code)
        lost = set(book.uploads) - set(listed(http, "/traces"))
    part.promise(f"every one of {len(book.uploads)} acknowledged uploads is there", not lost, lost)
    book.close()


def _in_the_middle(sweep: dict[str, object], measured: bool) -> bool:
    if measured:
        return "capture" in str(sweep["phase"])
    done = sweep["trials_done"]
    return isinstance(done, int) and done >= 2


def _outage(
    part: Part,
    home: House,
    outage_s: float,
    reason: str,
    *,
    begin: Callable[[], object],
    end: Callable[[], object],
    meanwhile: Callable[[], object] | None = None,
    writes_fail: bool = True,
) -> None:
    """Take something away and give it back; what the API says in between is held to its promises."""
    begin()
    started_s = time.monotonic()
    say(f"{part.title}: begun")
    status, detail = home.readiness()
    while status == 200 and time.monotonic() - started_s < NOTICED_S:
        time.sleep(0.2)
        status, detail = home.readiness()
    part.promise(f"/readyz says 503 and why: {detail!r}", status == 503 and reason in detail, (status, detail))
    if meanwhile is not None:
        meanwhile()
    answers: Counter[int] = Counter()
    kept: list[str] = []
    number = 0
    while time.monotonic() - started_s < outage_s:
        number += 1
        _upload(home, number, answers, kept)
        time.sleep(0.5)
    healthy = httpx.get(f"{home.url}/healthz", timeout=5).status_code
    part.promise("/healthz says 200 all the while", healthy == 200, healthy)
    if writes_fail:
        fine = set(answers) <= {201, 503}
        part.promise(f"an upload is answered by 503 or kept: {dict(answers)}", fine)
    end()
    took_s = home.wait_ready(RECOVERED_S)
    part.promise(f"ready again by itself, {took_s:.1f} s after it was back", True)
    with home.client() as http:
        lost = set(kept) - set(listed(http, "/traces"))
    part.promise("what was acknowledged meanwhile is there", not lost, lost)


def _upload(home: House, number: int, answers: Counter[int], kept: list[str]) -> None:
    with home.client() as http:
        answer = http.post("/traces", files={"file": (f"{number}.csv", histogram(1000 + number))})
    answers[answer.status_code] += 1
    if answer.status_code == 201:
        kept.append(str(answer.json()["id"]))


@contextmanager
def small_disk() -> Iterator[Path]:
    """A folder whose `data` is a disk of `DISK_MIB`.

    Raises:
        PermissionError: mounting is not allowed here.
    """
    with tempfile.TemporaryDirectory(prefix="cr-", ignore_cleanup_errors=True) as name:
        data = Path(name) / "data"
        data.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "tmpfs", str(data)]
        if subprocess.run(mount, capture_output=True).returncode:
            raise PermissionError("a full disk is tried on a tmpfs, and mounting one is not allowed here")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", str(data)], check=True, capture_output=True)


def _write_until_full(write: Callable[[bytes], object], block: bytes) -> None:
    try:
        while True:
            write(block)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
