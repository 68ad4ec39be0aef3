"""Recommendations and their export to an engine's configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.responses import PlainTextResponse, Response

from services.api.context import InPage, InStore
from services.api.workload import raw_options
from services.contract.export import ExportModel
from services.contract.plain import Request
from services.contract.recommendation import RecommendationModel, RecommendationsModel
from services.exporting import export_recommendation
from services.views import recommendation_summary, recommendation_view

router = APIRouter(prefix="/recommendations", tags=["recommendations"])


class ExportQuery(Request):
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


@router.get("/{recommendation_id}")
def show(store: InStore, recommendation_id: str) -> RecommendationModel:
    """One recommendation with its evidence."""
    return recommendation_view(store.recommendations.get(recommendation_id))


@router.get(
    "/{recommendation_id}/export",
    response_model=ExportModel,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def export(
    store: InStore,
    recommendation_id: str,
    query: Annotated[ExportQuery, Query()],
    accept: Annotated[str, Header()] = "application/json",
) -> ExportModel | Response:
    """Paste-ready configuration; as text with `format=text` or `Accept: text/plain`."""
    stored = store.recommendations.get(recommendation_id)
    model = export_recommendation(stored, query.engine, raw_options(query.set))
    wants_text = query.format == "text" or (query.format is None and accept.startswith("text/plain"))
    if not wants_text:
        return model
    name = f"captune-{recommendation_id}-{model.engine.partition('@')[0]}.txt"
    return PlainTextResponse(model.text, headers={"Content-Disposition": f'attachment; filename="{name}"'})
