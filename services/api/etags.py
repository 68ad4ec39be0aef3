"""ETags: an answer that has not changed since is not sent again."""

from __future__ import annotations

import hashlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.rendered import known_tags

PREFIX = "/api/"


class ETags:
    """ASGI middleware: a JSON or text answer to a GET carries the digest of its body; `If-None-Match` with that
    digest is answered by 304. Event streams, and answers that a route has tagged itself, pass through as they come."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Tagging(send, Headers(scope=scope).get("if-none-match", "")))


class _Tagging:
    def __init__(self, send: Send, known: str) -> None:
        self._send = send
        self._known = known_tags(known)
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _taggable(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        tag = f'"{hashlib.sha256(self._body).hexdigest()[:32]}"'
        headers = MutableHeaders(raw=start["headers"])
        headers["ETag"] = tag
        headers["Cache-Control"] = "no-cache"
        if tag in self._known or "*" in self._known:
            del headers["content-length"]
            await self._send({**start, "status": 304, "headers": headers.raw})
            await self._send({"type": "http.response.body", "body": b""})
            return
        await self._send({**start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": bytes(self._body)})


def _taggable(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    streams = headers.get("content-type", "").startswith("text/event-stream")
    return start["status"] == 200 and not streams and "etag" not in headers
