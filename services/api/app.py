"""The HTTP API over a store: `create_app(settings, store)`."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from db.store import Store
from services.api import openapi, problems
from services.api.access import Access
from services.api.context import Context
from services.api.etags import ETags
from services.api.guards import Guards
from services.api.requests import Requests
from services.api.routes import (
    book,
    coverage,
    engines,
    events,
    exports,
    health,
    importances,
    kv,
    load,
    measurements,
    models,
    profiles,
    recommendations,
    reports,
    schedules,
    shapes,
    sweeps,
    traces,
    uploads,
    workers,
)
from services.api.upload_progress import Uploads
from services.settings import Settings

PREFIX = "/api/v1"


def create_app(settings: Settings, store: Store) -> FastAPI:
    """The application. The caller opens `store` and closes it after the application has ended."""
    app = FastAPI(
        title="Captune",
        version="1",
        summary="CUDA-graph capture sizes for recorded traffic.",
        redirect_slashes=False,
    )
    context = Context(settings, store)
    app.state.context = context
    problems.install(app)
    app.add_middleware(ETags)  # the last one added is the first one asked
    app.add_middleware(Access, settings=settings, store=store)
    app.add_middleware(Uploads, kept=context.uploads)
    app.add_middleware(Guards, max_upload_bytes=settings.max_upload_bytes, answers=context.answers)
    app.add_middleware(Requests)
    versioned = APIRouter(prefix=PREFIX, responses=problems.RESPONSES)
    tuning = (
        traces,
        uploads,
        shapes,
        profiles,
        models,
        measurements,
        sweeps,
        events,
        importances,
        recommendations,
        reports,
    )
    for module in (*tuning, schedules, engines, coverage, load, kv, exports, workers, book):
        versioned.include_router(module.router)
    app.include_router(versioned)
    app.include_router(health.router)
    openapi.install(app, needs_tokens=settings.needs_tokens)
    return app
