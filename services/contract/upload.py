"""UploadModel: how far an upload is that is still on its way."""

from __future__ import annotations

from typing import Literal

from services.contract.plain import Answer


class UploadModel(Answer):
    """`receiving` until the last byte is here, `reading` while it is understood and stored, then how it ended."""

    id: str
    state: Literal["receiving", "reading", "stored", "refused"]
    received_bytes: int
    expected_bytes: int | None
