"""Every failure as application/problem+json with the fields of the error tree."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from services.contract.error import MEDIA_TYPE, ErrorModel
from workloads.errors import BadInput, CaptuneError, Unavailable

log = logging.getLogger("captune.api")

RETRY_AFTER_S = 2

_CODES = {
    400: "bad_request",
    401: "unauthorised",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
}

RESPONSES: dict[int | str, dict[str, object]] = {
    status: {"model": ErrorModel, "description": text, "content": {MEDIA_TYPE: {}}}
    for status, text in (
        (400, "The call is wrong"),
        (404, "There is no such object"),
        (405, "No such method here"),
        (409, "The object is not in a state that allows this"),
        (413, "The body is too large"),
        (422, "The content is wrong; `field` says where"),
        (429, "Too many requests of this client, or too many jobs of this user; see Retry-After"),
        (503, "The database does not answer now"),
    )
}
"""What every route may answer, for the OpenAPI document."""


def install(app: FastAPI) -> None:
    """Register the handlers."""

    @app.exception_handler(CaptuneError)
    async def captune_error(_request: Request, error: CaptuneError) -> Response:
        if error.http_status >= 500:
            log.warning("%s", error)
        return answer(ErrorModel.from_domain(error))

    @app.exception_handler(OperationalError)
    @app.exception_handler(InterfaceError)
    async def database_error(_request: Request, error: OperationalError | InterfaceError) -> Response:
        log.warning("the database does not answer: %s", error.orig)
        return answer(ErrorModel.from_domain(Unavailable("the database does not answer now; try again")))

    @app.exception_handler(NoConnectionFree)
    async def database_busy(_request: Request, error: NoConnectionFree) -> Response:
        log.warning("%s", error)
        return answer(ErrorModel.from_domain(Unavailable("the database has too much to do now; try again")))

    @app.exception_handler(DataError)
    async def data_error(_request: Request, error: DataError) -> Response:
        # PostgreSQL has no NUL in text; SQLite does not mind.
        return answer(ErrorModel.from_domain(BadInput(f"a value that the database cannot hold: {error.orig}")))

    @app.exception_handler(RequestValidationError)
    async def validation_error(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
        field = ".".join(place) or None
        detail = f"{field}: {first['msg']}" if field else str(first["msg"])
        return answer(ErrorModel(title="bad input", status=422, detail=detail, code="bad_input", field=field))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        code = _CODES.get(error.status_code, "http_error")
        model = ErrorModel(title=code.replace("_", " "), status=error.status_code, detail=str(error.detail), code=code)
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_allowed(app, request))
        return answer(model, headers)

    @app.exception_handler(Exception)
    async def unexpected(_request: Request, error: Exception) -> Response:
        # Starlette logs the traceback; a client learns no more than that it was not its fault.
        detail = "something went wrong here; the log of the API says what"
        return answer(ErrorModel(title="internal error", status=500, detail=detail, code="internal_error"))


def answer(model: ErrorModel, headers: dict[str, str] | None = None) -> Response:
    """The response of one error."""
    extra = {"Retry-After": str(RETRY_AFTER_S)} if model.status in (429, 503) else {}
    return Response(
        model.model_dump_json(), status_code=model.status, media_type=MEDIA_TYPE, headers={**extra, **(headers or {})}
    )


def _allowed(app: FastAPI, request: Request) -> list[str]:
    # Starlette's own Allow header names the methods of one route only; several routes can share a path. A path that
    # the document spells out goes before a template that would fit it too, as OpenAPI has it.
    path, paths = request.scope["path"], app.openapi()["paths"]
    spelled = [paths[path]] if path in paths else None
    fitting = spelled or [item for template, item in paths.items() if compile_path(template)[0].match(path)]
    return sorted({method.upper() for item in fitting for method in item})
