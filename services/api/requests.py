"""Every request has an id: in its log lines, in the answer's header, and with its trace where traces are sent."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.logs import logged
from services.telemetry import span

log = logging.getLogger("captune.api")

HEADER = "X-Request-ID"
_SAFE = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Requests:
    """ASGI middleware, asked first. A client's own id is kept when it is short and plain.

    One line is written for every request that changes something and for every failure of ours; reads are counted in
    /metrics only.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(HEADER, "")
        request = given if _SAFE.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request"] = request
        began_s, status = time.monotonic(), 500

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(raw=message["headers"])[HEADER] = request
            await send(message)

        method, path = scope["method"], scope["path"]
        about = {"http.request.method": method, "url.path": path, "captune.request": request}
        with logged(request=request), span(method, about, dict(headers)) as traced:
            try:
                await self._app(scope, receive, marked)
            finally:
                if traced is not None:
                    route = getattr(scope.get("route"), "path", None)
                    traced.update_name(f"{method} {route}" if route else method)
                    traced.set_attribute("http.response.status_code", status)
                if status >= 500 or method not in ("GET", "HEAD", "OPTIONS"):
                    took_ms = 1000 * (time.monotonic() - began_s)
                    log.info("%s %s: %d in %.0f ms", method, path, status, took_ms)
