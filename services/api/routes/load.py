"""The service at rising load, for several lists."""

from __future__ import annotations

from fastapi import APIRouter

from services.api.context import InStore
from services.catalog import find_profile
from services.contract.load import LoadCurveModel, LoadCurvesModel, LoadRequest
from tuner.engines.registry import engine as find_engine
from tuner.load_curve import LoadCase
from workloads.arrays import as_sizes

router = APIRouter(tags=["coverage"])


@router.post("/load-curves")
def load_curves(store: InStore, request: LoadRequest) -> LoadCurvesModel:
    """Replay a trace of requests at rising load under the engine's default and every given list."""
    engine = find_engine(request.engine)
    options = engine.options(request.options)
    profile = find_profile(request.profile, store, files=False)
    read = store.traces.load(request.trace_id)
    case = LoadCase.of(read.traffic, engine, options, profile, request.serving.to_domain())
    loads = case.grid(request.points)
    name = engine.list_names[0]
    default = engine.default_lists(options)
    lists = {"default": tuple(default.get(name, ()))}
    lists |= {label: tuple(int(size) for size in as_sizes(sizes)) for label, sizes in request.lists.items()}
    curves = {label: case.curve({**default, name: sizes}, loads) for label, sizes in lists.items()}
    return LoadCurvesModel(
        loads=loads, curves={label: LoadCurveModel.of(lists[label], curve) for label, curve in curves.items()}
    )
