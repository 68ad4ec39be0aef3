"""The HTTP API over a store: `create_app(settings, store)`."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from db.store import Store
from services.api import problems
from services.api.context import Context
from services.api.guards import Guards
from services.api.routes import (
    coverage,
    engines,
    exports,
    health,
    importances,
    profiles,
    recommendations,
    shapes,
    sweeps,
    traces,
)
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
    app.add_middleware(Guards, max_upload_bytes=settings.max_upload_bytes, answers=context.answers)
    versioned = APIRouter(prefix=PREFIX, responses=problems.RESPONSES)
    for module in (traces, shapes, profiles, sweeps, importances, recommendations, engines, coverage, exports):
        versioned.include_router(module.router)
    app.include_router(versioned)
    app.include_router(health.router)
    return app
