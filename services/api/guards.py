"""What stands in front of every route: body size, foreign web pages, and a count of answers."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.problems import answer
from services.contract.error import ErrorModel
from services.settings import MIB

SMALL_BODY_BYTES = 16 * MIB
FORM_OVERHEAD_BYTES = 64 * 1024


class Guards:
    """ASGI middleware.

    A body longer than allowed is refused while it streams in, before it fills a disk. A request that a browser sends
    on behalf of another site (its Origin is not this host) is refused: without it, any web page could reach an API
    that listens on loopback without tokens.
    """

    def __init__(self, app: ASGIApp, max_upload_bytes: int, answers: Counter[str]) -> None:
        self._app = app
        self._upload_bytes = max_upload_bytes + FORM_OVERHEAD_BYTES
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        counted = self._counting(send)
        if refusal is not None:
            await answer(refusal)(scope, receive, counted)
            return
        await self._app(scope, self._limited(receive, self._limit(scope)), counted)

    def _limit(self, scope: Scope) -> int:
        return self._upload_bytes if scope["path"].endswith(("/traces", "/traces/mapping")) else SMALL_BODY_BYTES

    def _refusal(self, scope: Scope, headers: Headers) -> ErrorModel | None:
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return ErrorModel(
                title="forbidden", status=403, detail="requests from other sites are refused", code="forbidden"
            )
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._limit(scope):
            return ErrorModel(title="too large", status=413, detail=_too_large(self._limit(scope)), code="too_large")
        return None

    def _limited(self, receive: Receive, limit: int) -> Receive:
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, _too_large(limit))
            return message

        return limited

    def _counting(self, send: Send) -> Send:
        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answers[f"{message['status'] // 100}xx"] += 1
            await send(message)

        return counting


def _too_large(limit: int) -> str:
    return f"the body is larger than {limit // MIB} MiB; import larger files with `captune trace import`"
