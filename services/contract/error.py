"""ErrorModel: every failure of the API, as application/problem+json (RFC 9457)."""

from __future__ import annotations

from typing import Self

from services.contract.plain import Answer
from workloads.errors import CaptuneError

MEDIA_TYPE = "application/problem+json"


class ErrorModel(Answer):
    """`detail` is one sentence for a person; `code`, `file`, `line`, `field` are for programs."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    file: str | None = None
    line: int | None = None
    field: str | None = None

    @classmethod
    def from_domain(cls, error: CaptuneError) -> Self:
        return cls(
            title=error.code.replace("_", " "),
            status=error.http_status,
            detail=str(error),
            code=error.code,
            file=error.file,
            line=error.line,
            field=error.field,
        )
