"""Who may do what: tokens with scopes, a rate limit, and a line in the audit table for every change."""

from __future__ import annotations

import hmac
import logging
import math
import time
from dataclasses import dataclass

from anyio import to_thread
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from db.records import Scope as TokenScope
from db.store import Store
from services.api.limits import RateLimiter
from services.api.problems import answer
from services.contract.error import ErrorModel
from services.settings import Settings

log = logging.getLogger("captune.api")

PREFIX = "/api/"
CALCULATIONS = ("/lint", "/score", "/solve", "/export")
"""POSTs that change nothing; their arguments are too long for a URL."""
ADMIN = ("/audit-log",)
REMEMBERED_S = 5.0
"""A token is looked up again after this: as long may a revoked one still work."""
RANK: dict[TokenScope, int] = {"read": 0, "write": 1, "admin": 2}


@dataclass(frozen=True, slots=True)
class Caller:
    """Behind a valid token."""

    name: str
    scope: TokenScope


class Access:
    """ASGI middleware, before the body is read: a stranger's upload fills no disk.

    On loopback a request without a token is welcome; one with a wrong token is not. The liveness, readiness and
    metrics pages and the OpenAPI document need no token: they name nothing of anybody's.
    """

    def __init__(self, app: ASGIApp, settings: Settings, store: Store) -> None:
        self._app = app
        self._settings = settings
        self._store = store
        self._limiter = RateLimiter(settings.rate_limit_per_s)
        self._known: dict[str, tuple[Caller | None, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        address = (scope.get("client") or ("local", 0))[0]
        try:
            caller, refusal = await self._admit(scope, address)
        except (OperationalError, InterfaceError):
            await answer(_problem(503, "unavailable", "the database does not answer now; try again"))(
                scope, receive, send
            )
            return
        scope.setdefault("state", {})["owner"] = None if caller is None else caller.name
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if refusal is not None:
                await answer(refusal, _headers_of(refusal))(scope, receive, watched)
            else:
                await self._app(scope, receive, watched)
        finally:
            if _changes(scope) and status != 429:
                name = caller.name if caller else address if self._settings.needs_tokens else "local"
                await self._book(name, scope, status)

    async def _admit(self, scope: Scope, address: str) -> tuple[Caller | None, ErrorModel | None]:
        scheme, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        given = scheme.lower() == "bearer" and bool(text.strip())
        caller = await self._caller(text.strip()) if given else None
        wait_s = self._limiter.wait_s(address if caller is None else f"token {caller.name}")
        if wait_s > 0:
            problem = _problem(429, "too_many_requests", f"too many requests; try again in {math.ceil(wait_s)} s")
            return caller, problem
        if caller is None and (given or self._settings.needs_tokens):
            reason = "the token is unknown, expired or revoked" if given else "this API needs a token"
            return None, _problem(401, "unauthorised", f"{reason}; send 'Authorization: Bearer TOKEN'")
        needed = _needed(scope)
        if caller is not None and RANK[caller.scope] < RANK[needed]:
            return caller, _problem(403, "forbidden", f"needs a token of scope {needed}; this one has {caller.scope}")
        return caller, None

    async def _caller(self, text: str) -> Caller | None:
        fixed = self._settings.api_token
        if fixed and hmac.compare_digest(text.encode(), fixed.encode()):
            return Caller("environment", "write")
        known = self._known.get(text)
        if known is not None and time.monotonic() - known[1] < REMEMBERED_S:
            return known[0]
        found = await to_thread.run_sync(self._store.tokens.find, text)
        caller = None if found is None else Caller(found.name, found.scope)
        if caller is not None:  # guesses are not remembered: they would fill the memory
            self._known[text] = (caller, time.monotonic())
        else:
            self._known.pop(text, None)
        return caller

    async def _book(self, actor: str, scope: Scope, status: int) -> None:
        try:
            await to_thread.run_sync(self._store.audit.add, actor, scope["method"], scope["path"], status)
        except (OperationalError, InterfaceError) as error:
            log.warning("no audit line for %s %s: %s", scope["method"], scope["path"], error.orig)


def _changes(scope: Scope) -> bool:
    return scope["method"] not in ("GET", "HEAD", "OPTIONS") and not scope["path"].endswith(CALCULATIONS)


def _needed(scope: Scope) -> TokenScope:
    if scope["path"].endswith(ADMIN):
        return "admin"
    return "write" if _changes(scope) else "read"


def _problem(status: int, code: str, detail: str) -> ErrorModel:
    return ErrorModel(title=code.replace("_", " "), status=status, detail=detail, code=code)


def _headers_of(problem: ErrorModel) -> dict[str, str]:
    return {"WWW-Authenticate": 'Bearer realm="captune"'} if problem.status == 401 else {}
