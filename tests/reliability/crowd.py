"""A crowd of clients in one light process: raw HTTP/1.1 over kept connections, so that it takes little of the cores
that it measures; `python -m tests.reliability.crowd URL ...` prints what was seen as one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

PREFIX = "/api/v1"
UPLOAD_SHARE = 0.01
THINK_S = 1.0
PATIENCE_S = 30.0
LARGEST_UPLOAD_BYTES = 1024 * 1024
BOUNDARY = "captune-crowd"

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Seen:
    """What the clients were told. Milliseconds from the first byte sent to the last one received."""

    statuses: Counter[int] = field(default_factory=Counter)
    reads_ms: dict[str, list[float]] = field(default_factory=dict)
    uploads_ms: list[float] = field(default_factory=list)
    uploaded: list[str] = field(default_factory=list)
    unmodified: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    late_ms: float = 0.0


@dataclass(frozen=True)
class Target:
    """Where the crowd goes; it polls the sweep and exports the recommendation."""

    host: str
    port: int
    sweep_id: str
    recommendation_id: str

    def reads(self) -> dict[str, tuple[str, int]]:
        """What is read: a name, its path and its weight. Polls of a sweep at work are what a crowd does most."""
        sweep, recommendation = f"/sweeps/{self.sweep_id}", f"/recommendations/{self.recommendation_id}"
        return {
            "sweep": (sweep, 25),
            "trials": (f"{sweep}/trials?after={{after}}&limit=100", 20),
            "sweeps": ("/sweeps?limit=50", 10),
            "traces": ("/traces?limit=50", 10),
            "recommendations": ("/recommendations?limit=50", 5),
            "recommendation": (recommendation, 5),
            "export": (f"{recommendation}/export", 15),
            "export as text": (f"{recommendation}/export?format=text", 5),
            "workers": ("/workers", 2),
            "engines": ("/engines", 2),
        }


class Client:
    """One person with one connection: a request, a second of thought; one request in a hundred is an upload."""

    def __init__(self, target: Target, number: int, seen: Seen) -> None:
        self._target = target
        self._dice = random.Random(number)
        self._seen = seen
        self._reads = target.reads()
        self._after = -1
        self._tags: dict[str, str] = {}
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def live(self, until_s: float) -> None:
        await asyncio.sleep(self._dice.uniform(0, THINK_S))
        names, weights = list(self._reads), [weight for _, weight in self._reads.values()]
        while time.monotonic() < until_s:
            try:
                if self._dice.random() < UPLOAD_SHARE:
                    await self._upload()
                else:
                    await self._read(self._dice.choices(names, weights)[0])
            except (OSError, EOFError, TimeoutError, ValueError) as error:
                self._seen.failures[type(error).__name__] += 1
                self._hang_up()
            woken_s = time.monotonic()
            await asyncio.sleep(THINK_S)
            self._seen.late_ms = max(self._seen.late_ms, 1000 * (time.monotonic() - woken_s - THINK_S))
        self._hang_up()

    async def _read(self, name: str) -> None:
        path = self._reads[name][0].replace("{after}", str(self._after))
        known = {"If-None-Match": self._tags[path]} if path in self._tags else {}
        started_s = time.monotonic()
        status, headers, body = await self._ask("GET", path, known)
        self._seen.reads_ms.setdefault(name, []).append(1000 * (time.monotonic() - started_s))
        self._seen.unmodified += status == 304
        if "etag" in headers:
            self._tags[path] = headers["etag"]
        if name == "trials" and status == 200:
            self._after = json.loads(body)["next_after"]

    async def _upload(self) -> None:
        content = request_table(self._dice)
        head = (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="crowd.csv"\r\n'
            "Content-Type: text/csv\r\n\r\n"
        )
        body = head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
        kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        started_s = time.monotonic()
        status, _, answer = await self._ask("POST", "/traces", kind, body)
        self._seen.uploads_ms.append(1000 * (time.monotonic() - started_s))
        if status == 201:
            self._seen.uploaded.append(json.loads(answer)["id"])

    async def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._target.host, self._target.port)
        reader, writer = self._streams
        lines = [f"{method} {PREFIX}{path} HTTP/1.1", f"Host: {self._target.host}:{self._target.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        answer = await asyncio.wait_for(_answer(reader), PATIENCE_S)
        self._seen.statuses[answer[0]] += 1
        if answer[1].get("connection") == "close":
            self._hang_up()
        return answer

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ")[1])
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
    if headers.get("transfer-encoding") == "chunked":
        raise ValueError("no route that the crowd asks streams its answer")
    length = 0 if status == 304 else int(headers.get("content-length", "0"))
    return status, headers, await reader.readexactly(length) if length else b""


def request_table(dice: random.Random) -> bytes:
    """A request trace that nobody else uploads, of up to `LARGEST_UPLOAD_BYTES`."""
    first = f"arrival_s,input_tokens,output_tokens\n0.{dice.randrange(10**9):09d},{dice.randrange(1, 10**6)},7\n"
    rows = dice.randrange(100, LARGEST_UPLOAD_BYTES // len(_row(0)))
    return (first.encode() + ROWS[: rows * len(_row(0))])[:LARGEST_UPLOAD_BYTES]


def _row(number: int) -> bytes:
    return f"{1 + number / 8:012.4f},{100 + number % 900},{10 + number % 89}\n".encode()


ROWS = b"".join(_row(number) for number in range(LARGEST_UPLOAD_BYTES // len(_row(0))))


async def crowd(target: Target, clients: int, seconds: float) -> Seen:
    """Send `clients` for `seconds`."""
    seen = Seen()
    until_s = time.monotonic() + seconds
    await asyncio.gather(*(Client(target, number, seen).live(until_s) for number in range(clients)))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--sweep", required=True)
    parser.add_argument("--recommendation", required=True)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    asked = parser.parse_args()
    parts = urlsplit(asked.url)
    target = Target(parts.hostname or "", parts.port or 80, asked.sweep, asked.recommendation)
    started_s = time.process_time()
    seen = asyncio.run(crowd(target, asked.clients, asked.seconds))
    json.dump({**vars(seen), "cpu_s": time.process_time() - started_s}, sys.stdout)


if __name__ == "__main__":
    main()
