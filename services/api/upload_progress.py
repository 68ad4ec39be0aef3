"""How far uploads are: watched as their bytes come in, kept in this process only, the latest few hundred."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_KEPT = 500


@dataclass(slots=True)
class Upload:
    """One upload; `expected_bytes` is what its Content-Length says."""

    expected_bytes: int | None
    received_bytes: int = 0
    state: Literal["receiving", "reading", "stored", "refused"] = "receiving"


class Uploads:
    """ASGI middleware: every POST of a trace is known by its X-Request-ID, which a client may choose.

    Args:
        kept: filled here, read by the route.
    """

    def __init__(self, app: ASGIApp, kept: OrderedDict[str, Upload]) -> None:
        self._app = app
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith("/traces"):
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        upload = self._kept[scope["state"]["request"]] = Upload(int(length) if length.isdigit() else None)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

        async def counted() -> Message:
            message = await receive()
            upload.received_bytes += len(message.get("body", b""))
            if message["type"] == "http.request" and not message.get("more_body", False):
                upload.state = "reading"
            return message

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                upload.state = "stored" if message["status"] < 300 else "refused"
            await send(message)

        await self._app(scope, counted, watched)
