"""Sweeps: start a tuning job, follow it, cancel it, resume it, ask for one like it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from db.records import Key, StoredSweep
from db.store import Store
from services.api.context import Context, InContext, InOwner, InStore, PageQuery
from services.api.keys import IdempotencyKey, key_of, mark
from services.contract.plain import Request
from services.contract.sweep import SweepClone, SweepCreate, SweepModel, SweepsModel, SweepState
from services.contract.trial import TrialsModel
from services.sweeps.asking import cloned, new_sweep
from services.views import sweep_view, trial_view

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
    return SweepsModel(items=tuple(_view(store, sweep) for sweep in page.items), next_after=page.next_after)


@router.get("/{sweep_id}")
def show(store: InStore, sweep_id: str) -> SweepModel:
    """One sweep as it stands."""
    return _view(store, store.sweeps.get(sweep_id, "tune"))


@router.get("/{sweep_id}/trials")
def trials(store: InStore, sweep_id: str, query: Annotated[TrialsQuery, Query()]) -> TrialsModel:
    """Recorded trials; poll with the `next_after` of the answer before."""
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
    found = store.recommendations.of_sweep(sweep.id) if sweep.state == "complete" else None
    return sweep_view(sweep, None if found is None else found.id)
