"""Sweeps: start a tuning job, follow it, cancel it, resume it, ask for one like it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from db.records import Key, StoredSweep
from db.store import Store
from services.api.context import Context, InContext, InOwner, InStore, PageQuery
from services.api.keys import IdempotencyKey, key_of, mark
from services.contract.plain import Request as ContractRequest
from services.contract.sweep import SweepClone, SweepCreate, SweepModel, SweepsModel, SweepState
from services.contract.trial import TrialsModel
from services.sweeps.asking import cloned, new_sweep
from services.views import sweep_view, trial_view

router = APIRouter(prefix="/sweeps", tags=["sweeps"])


class SweepsQuery(PageQuery):
    """Filters of the list."""

    state: SweepState | None = None
    trace_id: Annotated[str, Field(max_length=100)] | None = None


class TrialsQuery(ContractRequest):
    """Trials with a number above `after`."""

    after: Annotated[int, Field(ge=-1, le=2**31 - 1)] = -1
    limit: Annotated[int, Field(ge=1, le=1000)] = 500


@router.post("", status_code=201)
def create(
    context: InContext, owner: InOwner, response: Response, sweep: SweepCreate, key: IdempotencyKey = None
) -> SweepModel:
    """Queue a tuning job. What can be checked now is: engine, options, serving, budget, profile, trace."""
    return _queued(context, owner, response, sweep, key_of(key, owner, "sweep", sweep))


def _queued(context: Context, owner: str | None, response: Response, sweep: SweepCreate, key: Key | None) -> SweepModel:
    new = new_sweep(context.store, sweep, owner)
    stored, replayed = context.store.sweeps.create_once(new, key, most_queued=context.settings.max_queued_per_user)
    mark(response, replayed)
    response.headers["Location"] = f"/api/v1/sweeps/{stored.id}"
    return _view(context.store, stored)


@router.get("")
def list_sweeps(store: InStore, query: Annotated[SweepsQuery, Query()]) -> SweepsModel:
    """Sweeps, newest first."""
    page = store.sweeps.page(query.limit, query.after, state=query.state, trace_id=query.trace_id)
    results = store.recommendations.ids_of([sweep.id for sweep in page.items])
    items = tuple(sweep_view(sweep, results.get(sweep.id)) for sweep in page.items)
    return SweepsModel(items=items, next_after=page.next_after)


@router.get("/{sweep_id}", response_model=SweepModel)
def show(context: InContext, request: Request, sweep_id: str) -> Response:
    """One sweep as it stands."""
    store = context.store
    revision = store.sweeps.revision(sweep_id, "tune")
    return context.rendered.answer(
        request, ("sweep", sweep_id, revision), lambda: _view(store, store.sweeps.get(sweep_id, "tune"))
    )


@router.get("/{sweep_id}/trials", response_model=TrialsModel)
def trials(context: InContext, request: Request, sweep_id: str, query: Annotated[TrialsQuery, Query()]) -> Response:
    """Recorded trials; poll with the `next_after` of the answer before."""
    recorded = context.store.sweeps.recorded(sweep_id)
    parts = ("trials", sweep_id, query.after, query.limit, recorded)
    return context.rendered.answer(request, parts, lambda: _trials(context.store, sweep_id, query))


def _trials(store: Store, sweep_id: str, query: TrialsQuery) -> TrialsModel:
    found = store.sweeps.trials(sweep_id, query.after, query.limit)
    after = found[-1].number if found else query.after
    return TrialsModel(items=tuple(trial_view(trial) for trial in found), next_after=after)


@router.post("/{sweep_id}/cancel")
def cancel(store: InStore, sweep_id: str) -> SweepModel:
    """End a sweep now; what it recorded stays."""
    store.sweeps.get(sweep_id, "tune")
    return _view(store, store.sweeps.cancel(sweep_id))


@router.post("/{sweep_id}/resume")
def resume(store: InStore, sweep_id: str) -> SweepModel:
    """Queue a failed or cancelled sweep again; it goes on after the trials that it has recorded."""
    store.sweeps.get(sweep_id, "tune")
    return _view(store, store.sweeps.resume(sweep_id))


@router.post("/{sweep_id}/clone", status_code=201)
def clone(
    context: InContext,
    owner: InOwner,
    response: Response,
    sweep_id: str,
    change: SweepClone | None = None,
    key: IdempotencyKey = None,
) -> SweepModel:
    """Queue a new sweep that asks for the same, but for what the body says otherwise."""
    stored = context.store.sweeps.get(sweep_id, "tune")
    sweep = cloned(stored, change or SweepClone())
    return _queued(context, owner, response, sweep, key_of(key, owner, f"clone {sweep_id}", sweep))


def _view(store: Store, sweep: StoredSweep) -> SweepModel:
    return sweep_view(sweep, store.recommendations.ids_of([sweep.id]).get(sweep.id))
