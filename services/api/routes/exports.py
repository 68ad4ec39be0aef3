"""Export any lists to an engine's configuration, without a recommendation behind them."""

from __future__ import annotations

from fastapi import APIRouter

from services.contract.export import ExportModel, ExportRequest
from tuner.engines.base import Provenance
from tuner.engines.importing import Present, import_text
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
    options = chosen.options(request.options)
    running = None if request.running is None else _running(request.running, chosen.name)
    return ExportModel.of(chosen, lists, options, Provenance(), running)


def _running(text: str, engine_name: str) -> Present:
    """Raises:
    BadUsage: not understood, or of another engine than the export.
    """
    try:
        present = import_text(text)
    except BadUsage as error:
        raise BadUsage(str(error), field="running") from None
    if present.engine.name != engine_name:
        raise BadUsage(f"is for {present.engine.name}, but the export is for {engine_name}", field="running")
    return present
