"""Answers by what they are made of: what a client has already is not sent again, and nothing is rendered twice."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import version
from threading import Lock

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

MOST_BYTES = 16 * 1024 * 1024
JSON_TYPE = "application/json"

Part = str | int | None


class Rendered:
    """Bodies that were sent lately, by the parts that decide every byte of them: an id, a digest, a revision.

    The parts are the ETag too, so a poll of something that has not changed costs the look at its revision alone.
    Thread-safe; one for each application.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._held_bytes = 0
        self._lock = Lock()

    def answer(
        self,
        request: Request,
        parts: tuple[Part, ...],
        render: Callable[[], BaseModel | str],
        headers: dict[str, str] | None = None,
    ) -> Response:
        """304 where the client has this already, else the body, made by `render` if nobody asked for it lately.

        Args:
            parts: different ones for different bodies, over all routes.
            render: a model is sent as JSON, text as plain text.
            headers: sent with the body.
        """
        tag = tag_of(parts)
        about = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in known_tags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=about)
        body, kind = self._body(tag, render)
        return Response(body, media_type=kind, headers={**about, **(headers or {})})

    def _body(self, tag: str, render: Callable[[], BaseModel | str]) -> tuple[bytes, str]:
        with self._lock:
            kept = self._bodies.get(tag)
            if kept is not None:
                self._bodies.move_to_end(tag)
        if kept is None:
            made = render()
            kept = b"t" + made.encode() if isinstance(made, str) else b"j" + made.model_dump_json().encode()
            self._keep(tag, kept)
        return kept[1:], JSON_TYPE if kept[:1] == b"j" else "text/plain"

    def _keep(self, tag: str, body: bytes) -> None:
        with self._lock:
            if tag in self._bodies or len(body) > self._most_bytes // 8:
                return
            self._bodies[tag] = body
            self._held_bytes += len(body)
            while self._held_bytes > self._most_bytes:
                self._held_bytes -= len(self._bodies.popitem(last=False)[1])


def tag_of(parts: tuple[Part, ...]) -> str:
    """A strong ETag. Another release may render the same parts differently, so it is one of them."""
    text = json.dumps([version("captune"), *parts])
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def known_tags(header: str) -> set[str]:
    """The ETags in an If-None-Match header."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
