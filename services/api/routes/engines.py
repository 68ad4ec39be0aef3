"""Engines that Captune knows, and linting of capture lists."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from services.api.context import InContext
from services.contract.engine import EngineModel, EnginesModel
from services.contract.lint import LintModel, LintRequest
from tuner.engines.registry import ENGINE_NAMES
from tuner.engines.registry import engine as find_engine
from workloads.errors import BadUsage

router = APIRouter(tags=["engines"])


@router.get("/engines", response_model=EnginesModel)
def list_engines(context: InContext, request: Request) -> Response:
    """Every engine at the newest version whose rules are known."""
    return context.rendered.answer(request, ("engines",), _engines)


def _engines() -> EnginesModel:
    return EnginesModel(items=tuple(EngineModel.from_domain(find_engine(name)) for name in ENGINE_NAMES))


@router.post("/lint")
def lint(request: LintRequest) -> LintModel:
    """What an engine would capture when asked for some lists, and what is wrong with asking."""
    chosen = find_engine(request.engine)
    options = chosen.options(request.options)
    unknown = sorted(set(request.lists or {}) - set(chosen.list_names))
    if unknown:
        known = ", ".join(chosen.list_names)
        raise BadUsage(f"{chosen.name} has no list '{unknown[0]}', only {known}", field="lists")
    if request.lists is None:
        return LintModel.of(chosen, chosen.default_lists(options), options)
    return LintModel.of(chosen, {name: tuple(sizes) for name, sizes in request.lists.items()}, options)
