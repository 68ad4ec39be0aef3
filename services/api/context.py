"""What routes need, as FastAPI dependencies."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Annotated, cast

from anyio import CapacityLimiter
from fastapi import Depends, Query, Request
from pydantic import Field

from db.store import Store
from services.api.rendered import Rendered
from services.api.upload_progress import Upload
from services.contract.plain import Request as ContractRequest
from services.settings import Settings

PARALLEL_READS = 2
"""Uploads parsed at the same time; more wait, and do not hold the threads that answer reads."""


class Context:
    """Lives as long as the application."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.store = store
        self.answers: Counter[str] = Counter()
        self.streams = 0
        self.uploads: OrderedDict[str, Upload] = OrderedDict()
        self.rendered = Rendered()
        self._reads: CapacityLimiter | None = None

    @property
    def reads(self) -> CapacityLimiter:
        if self._reads is None:  # must be made inside a running event loop
            self._reads = CapacityLimiter(PARALLEL_READS)
        return self._reads


def _context(request: Request) -> Context:
    return cast(Context, request.app.state.context)


def _store(request: Request) -> Store:
    return _context(request).store


def _owner(request: Request) -> str | None:
    return cast(str | None, request.scope.get("state", {}).get("owner"))


InContext = Annotated[Context, Depends(_context)]
InStore = Annotated[Store, Depends(_store)]
InOwner = Annotated[str | None, Depends(_owner)]
"""The name of the token that a request came with; None without one, which only loopback allows."""


class PageQuery(ContractRequest):
    """`after` is `next_after` of the page before."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    after: Annotated[str, Field(max_length=100)] | None = None


InPage = Annotated[PageQuery, Query()]
