"""Reports: a recommendation with its evidence and drawings, to read, print and hand on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from services.api.context import Context, InContext
from services.contract.plain import Request as ContractRequest
from services.report.content import report_of
from services.report.html import as_html
from services.report.markdown import as_markdown
from services.report.stored import stored_recommendation
from workloads.errors import NotFound

router = APIRouter(tags=["reports"])

Form = Literal["html", "markdown"]
TYPES: dict[Form, str] = {"html": "text/html", "markdown": "text/markdown"}
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind: {"schema": {"type": "string"}} for kind in TYPES.values()}}
}
SEALED = "default-src 'none'; style-src 'unsafe-inline'"
"""A report loads nothing and runs nothing, wherever it is opened."""


class ReportQuery(ContractRequest):
    """`markdown` says in sentences what the drawings of `html` show."""

    format: Form = "html"


@router.get("/recommendations/{recommendation_id}/report", response_class=Response, responses=TEXT)
def of_recommendation(
    context: InContext, request: Request, recommendation_id: str, query: Annotated[ReportQuery, Query()]
) -> Response:
    """The report of a recommendation."""
    return _report(context, request, recommendation_id, query.format)


@router.get("/sweeps/{sweep_id}/report", response_class=Response, responses=TEXT)
def of_sweep(context: InContext, request: Request, sweep_id: str, query: Annotated[ReportQuery, Query()]) -> Response:
    """The report of what a sweep recommended."""
    made = context.store.recommendations.ids_of([sweep_id]).get(sweep_id)
    if made is None:
        context.store.sweeps.get(sweep_id, "tune")  # which of the two is missing
        raise NotFound(f"the sweep '{sweep_id}' has no recommendation to report")
    return _report(context, request, made, query.format)


def _report(context: Context, request: Request, recommendation_id: str, form: Form) -> Response:
    head = context.store.recommendations.head(recommendation_id)

    def render() -> str:
        made = report_of(stored_recommendation(context.store, recommendation_id))
        return as_html(made) if form == "html" else as_markdown(made)

    headers = {"Content-Type": f"{TYPES[form]}; charset=utf-8", "Content-Security-Policy": SEALED}
    return context.rendered.answer(request, ("report", head.id, head.digest, form), render, headers)
