"""How a stored trace looks over time, for plots."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query
from pydantic import Field

from db.store import Store
from services.api.context import InStore
from services.api.workload import EngineChoice, WorkloadQuery, choose_engine, given_lists, observe_query
from services.catalog import find_profile
from services.contract.shape import BinnedModel, DriftModel, HeatMapModel, ShapeModel
from tuner.audit import engine_of
from tuner.engines.base import Lists
from tuner.engines.registry import ENGINE_NAMES
from tuner.engines.registry import engine as find_engine
from tuner.step_cost import step_cost
from tuner.traffic import Observed, dispatch_of
from workloads.errors import BadUsage
from workloads.shape import HALVES, Window, arrivals, drift, heat_map, lengths
from workloads.traces.records import RequestTrace

router = APIRouter(prefix="/traces", tags=["traces"])


_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ShapeQuery(WorkloadQuery):
    """Drift compares two windows, given as shares of the recorded time: by default its halves."""

    first_from: _Share = HALVES[0][0]
    first_to: _Share = HALVES[0][1]
    second_from: _Share = HALVES[1][0]
    second_to: _Share = HALVES[1][1]

    def windows(self) -> tuple[Window, Window]:
        """Raises:
        BadUsage: a window that ends before it begins.
        """
        found = (self.first_from, self.first_to), (self.second_from, self.second_to)
        for name, (begin, end) in zip(("first", "second"), found, strict=True):
            if begin >= end:
                raise BadUsage(f"must be below {name}_to, which is {end:g}", field=f"{name}_from")
        return found


@router.get("/{trace_id}/shape")
def shape(store: InStore, trace_id: str, query: Annotated[ShapeQuery, Query()]) -> ShapeModel:
    """Arrivals, lengths, sizes over time, drift, and the share of steps above every engine's default ceiling."""
    read = store.traces.load(trace_id)
    choice = choose_engine(query.engine or engine_of(read.observation) or "vllm", query.set)
    lists = given_lists(query.sizes, choice)
    observed, timed_by = observe_query(store, read, query, choice, lists)
    requests = read.traffic if isinstance(read.traffic, RequestTrace) else None
    heat = heat_map(observed.steps, observed.decode_family)
    moved = drift(observed.steps, observed.decode_family, query.windows())
    return ShapeModel(
        family=observed.decode_family,
        start_epoch_s=None if requests is None else requests.start_epoch_s,
        arrivals=None if requests is None else BinnedModel.from_domain(arrivals(requests)),
        input_tokens=None if requests is None else BinnedModel.from_domain(lengths(requests.input_tokens)),
        output_tokens=None if requests is None else BinnedModel.from_domain(lengths(requests.output_tokens)),
        heat_map=None if heat is None else HeatMapModel.from_domain(heat),
        drift=None if moved is None else DriftModel.from_domain(moved),
        step_ms=_step_ms(store, observed, choice, query.profile or timed_by, lists),
        ceilings=_ceilings(observed),
    )


def _step_ms(
    store: Store, observed: Observed, choice: EngineChoice, profile_ref: str | None, lists: Lists | None
) -> dict[int, float]:
    """Milliseconds by decode size; empty without a profile that knows the family."""
    histogram = observed.histograms.get(observed.decode_family)
    if profile_ref is None or histogram is None:
        return {}
    profile = find_profile(profile_ref, store, files=False)
    if observed.decode_family not in profile.families:
        return {}
    dispatch = dispatch_of(choice.engine, choice.options, profile, lists)
    ms = step_cost(profile, dispatch, observed.decode_family, histogram.sizes).ms
    known = np.isfinite(ms)
    return dict(zip(histogram.sizes[known].tolist(), ms[known].tolist(), strict=True))


def _ceilings(observed: Observed) -> dict[str, tuple[int, float]]:
    histogram = observed.histograms.get(observed.decode_family)
    if histogram is None:
        return {}
    ceilings = {}
    for name in ENGINE_NAMES:
        engine = find_engine(name)
        default = engine.default_lists(engine.options({})).get(engine.list_names[0], ())
        top = max(default, default=0)
        above = float(histogram.steps[histogram.sizes > top].sum()) / histogram.total_steps
        ceilings[engine.spec] = (top, above)
    return ceilings
