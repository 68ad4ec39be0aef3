"""Export any lists to an engine's configuration, without a recommendation behind them."""

from __future__ import annotations

from fastapi import APIRouter

from services.contract.export import ExportModel, ExportRequest
from tuner.engines.base import Provenance
from tuner.engines.registry import engine as find_engine
from workloads.arrays import as_sizes
from workloads.errors import BadUsage

router = APIRouter(tags=["engines"])


@router.post("/export")
def export(request: ExportRequest) -> ExportModel:
    """Paste-ready configuration of one engine version, what it will really capture, and what is wrong with asking."""
    chosen = find_engine(request.engine)
    unknown = sorted(set(request.lists) - set(chosen.list_names))
    if unknown:
        known = ", ".join(chosen.list_names)
        raise BadUsage(f"{chosen.name} has no list '{unknown[0]}', only {known}", field="lists")
    lists = {name: tuple(int(size) for size in as_sizes(sizes)) for name, sizes in request.lists.items()}
    return ExportModel.of(chosen, lists, chosen.options(request.options), Provenance())
