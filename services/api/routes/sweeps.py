"""Sweeps: start a tuning job, follow it, cancel it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from db.records import NewSweep, StoredSweep
from db.store import Store
from services.api.context import InStore, PageQuery
from services.catalog import find_profile
from services.contract.plain import Request
from services.contract.sweep import MEASURE, SweepCreate, SweepModel, SweepsModel, SweepState
from services.contract.trial import TrialsModel
from services.views import sweep_view, trial_view
from tuner.engines.registry import engine as find_engine

router = APIRouter(prefix="/sweeps", tags=["sweeps"])


class SweepsQuery(PageQuery):
    """Filters of the list."""

    state: SweepState | None = None
    trace_id: Annotated[str, Field(max_length=100)] | None = None


class TrialsQuery(Request):
    """Trials with a number above `after`."""

    after: Annotated[int, Field(ge=-1, le=2**31 - 1)] = -1
    limit: Annotated[int, Field(ge=1, le=1000)] = 500


@router.post("", status_code=201)
def create(store: InStore, sweep: SweepCreate) -> SweepModel:
    """Queue a tuning job. What can be checked now is: engine, options, serving, budget, profile, trace."""
    chosen = find_engine(sweep.engine)
    chosen.options(sweep.options)
    sweep.serving.to_domain()
    sweep.budget.to_domain()
    if sweep.profile != MEASURE:
        find_profile(sweep.profile, store, files=False)
    new = NewSweep(
        trace_id=sweep.trace_id,
        engine=chosen.spec,
        profile=sweep.profile,
        options=sweep.options,
        serving=sweep.serving.model_dump(mode="json"),
        budget=sweep.budget.model_dump(mode="json"),
        objective=sweep.objective,
        model=sweep.model,
        trials=sweep.trials,
        seed=sweep.seed,
        holdout_share=sweep.holdout_share,
    )
    return sweep_view(store.sweeps.create(new))


@router.get("")
def list_sweeps(store: InStore, query: Annotated[SweepsQuery, Query()]) -> SweepsModel:
    """Sweeps, newest first."""
    page = store.sweeps.page(query.limit, query.after, state=query.state, trace_id=query.trace_id)
    return SweepsModel(items=tuple(_view(store, sweep) for sweep in page.items), next_after=page.next_after)


@router.get("/{sweep_id}")
def show(store: InStore, sweep_id: str) -> SweepModel:
    """One sweep as it stands."""
    return _view(store, store.sweeps.get(sweep_id))


@router.get("/{sweep_id}/trials")
def trials(store: InStore, sweep_id: str, query: Annotated[TrialsQuery, Query()]) -> TrialsModel:
    """Recorded trials; poll with the `next_after` of the answer before."""
    found = store.sweeps.trials(sweep_id, query.after, query.limit)
    after = found[-1].number if found else query.after
    return TrialsModel(items=tuple(trial_view(trial) for trial in found), next_after=after)


@router.post("/{sweep_id}/cancel")
def cancel(store: InStore, sweep_id: str) -> SweepModel:
    """End a sweep now; what it recorded stays."""
    return _view(store, store.sweeps.cancel(sweep_id))


def _view(store: Store, sweep: StoredSweep) -> SweepModel:
    found = store.recommendations.of_sweep(sweep.id) if sweep.state == "complete" else None
    return sweep_view(sweep, None if found is None else found.id)
