"""The crowd against an API beside a sweep at work: no failure of the server, no lost upload, reads that stay quick."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.reliability.crowd import LARGEST_UPLOAD_BYTES, THINK_S, UPLOAD_SHARE
from tests.reliability.processes import ROOT, cpu_s, house
from tests.reliability.report import Part, say
from tests.reliability.work import Book, listed

P95_LIMIT_MS = 500.0
LONG_SWEEP_TRIALS = 5000
"""More than it can do while the crowd is there; it is cancelled afterwards."""


def crowding(clients: int, seconds: float) -> Part:
    """`clients` for `seconds` on SQLite with one modelled sweep at work."""
    about = (
        f"{clients} clients for {seconds:g} s, {THINK_S:g} s of thought between requests, {UPLOAD_SHARE:.0%} uploads "
        f"of up to {LARGEST_UPLOAD_BYTES // 2**20} MiB, the rest polls and exports; SQLite, one API process, "
        "one modelled sweep at work."
    )
    part = Part("Crowd", about)
    with house() as home:
        book = Book(home)
        finished = book.queue()
        result = book.wait_complete(finished, 120)["recommendation_id"]
        running = book.queue(trials=LONG_SWEEP_TRIALS)
        say(f"crowd: {clients} clients for {seconds:g} s")
        before_s = cpu_s(home.processes["API"].pid)
        command = [sys.executable, "-m", "tests.reliability.crowd", home.url, f"--sweep={running}"]
        command += [f"--recommendation={result}", f"--clients={clients}", f"--seconds={seconds}"]
        answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=seconds + 120)
        seen = json.loads(answer.stdout)
        api_s = cpu_s(home.processes["API"].pid) - before_s
        trials = book.state(running)["trials_done"]
        with home.client() as http:
            http.post(f"/sweeps/{running}/cancel")
            lost = set(seen["uploaded"]) - set(listed(http, "/traces"))
        book.close()
    _judge(part, seen, lost)
    part.promise("the sweep went on meanwhile", trials > 0, trials)
    part.figures.append(
        f"processor time: API {api_s / seconds:.0%} of a core, clients {seen['cpu_s'] / seconds:.0%}; "
        f"the sweep did {trials} trials"
    )
    return part


def _judge(part: Part, seen: dict[str, object], lost: set[str]) -> None:
    statuses: dict[str, int] = seen["statuses"]  # type: ignore[assignment]
    by_name: dict[str, list[float]] = seen["reads_ms"]  # type: ignore[assignment]
    uploads_ms: list[float] = seen["uploads_ms"]  # type: ignore[assignment]
    uploaded: list[str] = seen["uploaded"]  # type: ignore[assignment]
    reads = [ms for each in by_name.values() for ms in each]
    p95_ms = quantile(reads, 0.95)
    part.promise("no answer was a 5xx", not any(int(status) >= 500 for status in statuses), statuses)
    part.promise("no connection failed", not seen["failures"], seen["failures"])
    part.promise(f"none of {len(uploaded)} acknowledged uploads was lost", bool(uploaded) and not lost, lost)
    part.promise(f"p95 of {len(reads)} reads under {P95_LIMIT_MS:g} ms: {p95_ms:.0f} ms", p95_ms < P95_LIMIT_MS)
    part.figures.append("answers: " + ", ".join(f"{status} {count}" for status, count in sorted(statuses.items())))
    part.figures.append(f"reads: median {quantile(reads, 0.5):.1f} ms, p99 {quantile(reads, 0.99):.0f} ms")
    part.figures.append(
        "p95 by what was read: " + ", ".join(f"{n} {quantile(ms, 0.95):.0f} ms" for n, ms in by_name.items())
    )
    if uploads_ms:
        part.figures.append(f"uploads: median {quantile(uploads_ms, 0.5):.0f} ms, slowest {max(uploads_ms):.0f} ms")
    part.figures.append(f"the clients themselves woke up to {seen['late_ms']:.0f} ms late")


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of the values do not exceed; nan of none."""
    return sorted(values)[int(share * (len(values) - 1))] if values else float("nan")
