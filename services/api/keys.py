"""Idempotency keys of requests: `Idempotency-Key` on every create."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header
from pydantic import BaseModel
from starlette.responses import Response

from db.records import Key, digest_of

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="A text of your choice: the same request sent again with it makes nothing new.",
    ),
]
REPLAYED = "Idempotent-Replayed"
"""Header of an answer about something that this key had made before."""


def key_of(text: str | None, owner: str | None, what: str, asked: BaseModel | Any) -> Key | None:
    """The key with the digest of the request; None where the client gave none."""
    if text is None:
        return None
    document = asked.model_dump(mode="json") if isinstance(asked, BaseModel) else asked
    return Key(owner or "local", text, digest_of({"what": what, "asked": document}))


def mark(response: Response, replayed: bool) -> None:
    """Say in the answer that nothing new was made."""
    if replayed:
        response.headers[REPLAYED] = "true"
