"""What the OpenAPI document says beyond the routes themselves: tokens, ETags, replayed creates."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from services.api.keys import REPLAYED
from services.contract.error import MEDIA_TYPE

PREFIX = "/api/"
_TEXT = {"schema": {"type": "string"}}


def install(app: FastAPI, *, needs_tokens: bool) -> None:
    """Build the document once, when it is first asked for."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            _complete(made, needs_tokens)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _complete(document: dict[str, Any], needs_tokens: bool) -> None:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if not path.startswith(PREFIX):
                continue
            if method == "get" and "text/event-stream" not in operation["responses"]["200"].get("content", {}):
                _tag(operation)
            if any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", [])):
                made = operation["responses"].get("201") or operation["responses"]["202"]
                made["headers"] = {REPLAYED: {"description": "true: this key had made it before", **_TEXT}}
            if needs_tokens:
                _protect(operation)
    if needs_tokens:
        scheme = {"type": "http", "scheme": "bearer", "description": "captune token create"}
        document.setdefault("components", {})["securitySchemes"] = {"token": scheme}


def _tag(operation: dict[str, Any]) -> None:
    known = {"name": "If-None-Match", "in": "header", "required": False, **_TEXT}
    operation.setdefault("parameters", []).append(known)
    operation["responses"]["200"]["headers"] = {"ETag": {"description": "Changes when the body does", **_TEXT}}
    operation["responses"]["304"] = {"description": "Still what If-None-Match names"}


def _protect(operation: dict[str, Any]) -> None:
    operation["security"] = [{"token": []}]
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ErrorModel"}}}
    for status, text in (("401", "No valid token"), ("403", "The token's scope does not allow this")):
        operation["responses"][status] = {"description": text, "content": content}
