"""Recommendations and their export to an engine's configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from services.api.context import InContext, InPage, InStore
from services.contract.export import ExportModel
from services.contract.plain import Request as ContractRequest
from services.contract.recommendation import RecommendationModel, RecommendationsModel
from services.exporting import export_recommendation
from services.views import recommendation_summary, recommendation_view
from tuner.engines.options import split_pairs
from tuner.engines.registry import engine as find_engine

router = APIRouter(prefix="/recommendations", tags=["recommendations"])


class ExportQuery(ContractRequest):
    """`engine` defaults to the one tuned for, `set` repeats KEY=VALUE on top of the options tuned with;
    `format=text` answers with the configuration alone, as a download."""

    engine: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    set: Annotated[list[str], Field(max_length=200)] = Field(default_factory=list)
    format: Literal["json", "text"] | None = None


@router.get("")
def list_recommendations(store: InStore, page: InPage) -> RecommendationsModel:
    """Recommendations, newest first, without their evidence."""
    found = store.recommendations.page(page.limit, page.after)
    items = tuple(recommendation_summary(stored) for stored in found.items)
    return RecommendationsModel(items=items, next_after=found.next_after)


@router.get("/{recommendation_id}", response_model=RecommendationModel)
def show(context: InContext, request: Request, recommendation_id: str) -> Response:
    """One recommendation with its evidence."""
    head = context.store.recommendations.head(recommendation_id)
    return context.rendered.answer(
        request,
        ("recommendation", head.id, head.digest, head.sweep_id),
        lambda: recommendation_view(context.store.recommendations.get(recommendation_id)),
    )


@router.get(
    "/{recommendation_id}/export",
    response_model=ExportModel,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def export(
    context: InContext,
    request: Request,
    recommendation_id: str,
    query: Annotated[ExportQuery, Query()],
    accept: Annotated[str, Header()] = "application/json",
) -> Response:
    """Paste-ready configuration; as text with `format=text` or `Accept: text/plain`."""
    head = context.store.recommendations.head(recommendation_id)
    as_text = query.format == "text" or (query.format is None and accept.startswith("text/plain"))
    chosen = find_engine(query.engine or head.engine)

    def render() -> ExportModel | str:
        model = export_recommendation(head, chosen.spec, split_pairs(query.set, field="set"))
        return model.text if as_text else model

    name = f"captune-{recommendation_id}-{chosen.name}.txt"
    return context.rendered.answer(
        request,
        ("export", head.id, head.digest, chosen.spec, *query.set, as_text),
        render,
        {"Content-Disposition": f'attachment; filename="{name}"'} if as_text else None,
    )
