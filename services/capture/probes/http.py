"""Just enough HTTP for a load generator: hundreds of streams at once cost a general client more than the engine's step.

A stream's chunks are only timed; the last of them is parsed, for its token count.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import resource
import time
from dataclasses import dataclass
from typing import Any

_EVENT = b"data: "
_DONE = b"data: [DONE]"
_LONGEST_LINE = 64 * 2**20


class HttpError(Exception):
    """The server answered with another status than 200, or closed early; the text is its own."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """One server-sent event stream: times on `time.perf_counter`, and the last event but `[DONE]`."""

    first_s: float
    last_s: float
    last_event: dict[str, Any]


def allow_many_streams() -> None:
    """Every open stream is an open file, here and in the server; a shell often allows 1024.

    To be called before the start: a server inherits the limit, and vLLM raises its own to 65535 or not at all.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def is_healthy(port: int, path: str = "/health") -> bool:
    """Whether the server on loopback answers 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def post(port: int, path: str, body: bytes, timeout_s: float) -> dict[str, Any]:
    """Post a JSON document; the answer as a JSON object, one that is a list under `items`.

    Raises:
        HttpError: another status than 200, or no JSON object.
    """
    return _object(_answer(port, "POST", path, body, timeout_s))


def get_text(port: int, path: str, timeout_s: float) -> str:
    """What the server answers.

    Raises:
        HttpError: another status than 200.
    """
    return _answer(port, "GET", path, None, timeout_s).decode(errors="replace")


def _answer(port: int, method: str, path: str, body: bytes | None, timeout_s: float) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise HttpError(f"{answer.status}: {text[:500].decode(errors='replace')}")
        return text
    except (OSError, http.client.HTTPException) as error:
        raise HttpError(f"{type(error).__name__}: {error}") from None
    finally:
        connection.close()


async def post_stream(port: int, path: str, body: bytes) -> Streamed:
    """Post a JSON document and time the events of the answer.

    Raises:
        HttpError: another status than 200, an error inside the stream, or no event.
    """
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LONGEST_LINE)
    except OSError as error:
        raise HttpError(f"{type(error).__name__}: {error}") from None
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        return await _events(reader)
    except (OSError, asyncio.IncompleteReadError) as error:
        raise HttpError(f"{type(error).__name__}: {error}") from None
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _events(reader: asyncio.StreamReader) -> Streamed:
    status = (await reader.readline()).decode(errors="replace").split(" ", 2)
    chunked = False
    while (line := await reader.readline()) not in (b"\r\n", b""):
        chunked |= line.lower().startswith(b"transfer-encoding:") and b"chunked" in line.lower()
    if len(status) < 2 or status[1] != "200":
        raise HttpError(f"{' '.join(status[1:]).strip()}: {(await reader.read(500)).decode(errors='replace')}")
    first_s = last_s = 0.0
    last = rest = b""
    while data := await _next(reader, chunked):
        now_s = time.perf_counter()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_DONE):
                return _streamed(first_s, last_s, last)
            if line.startswith(_EVENT):
                first_s, last_s, last = first_s or now_s, now_s, line
    return _streamed(first_s, last_s, last)


async def _next(reader: asyncio.StreamReader, chunked: bool) -> bytes:
    if not chunked:
        return await reader.read(65536)
    size = int((await reader.readline()).strip() or b"0", 16)
    data = await reader.readexactly(size)
    await reader.readline()
    return data


def _streamed(first_s: float, last_s: float, last: bytes) -> Streamed:
    if not last:
        raise HttpError("the stream ended before the first token")
    event = _object(last.removeprefix(_EVENT))
    if "error" in event:
        raise HttpError(str(event["error"]))
    return Streamed(first_s, last_s, event)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        raise HttpError(f"no JSON: {body[:200].decode(errors='replace')}") from None
    if not isinstance(found, dict):
        return {"items": found}
    return found
