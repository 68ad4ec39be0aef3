"""Cost profiles: shipped ones and imported ones."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.openapi.models import Example
from pydantic import Field
from starlette.responses import Response

from db.records import NewMeasurement
from services.api.context import InContext, InOwner, InStore, PageQuery
from services.api.keys import IdempotencyKey, key_of, mark
from services.catalog import find_profile, shipped_profiles
from services.contract.measurement import MeasurementCreate, MeasurementModel
from services.contract.profile import ProfileModel, ProfilesModel, ProfileSummary
from services.views import measurement_view, profile_view
from tuner.profile_file import dump_profile, parse_profile
from workloads.errors import BadUsage, Conflict
from workloads.models.config import builtin_names

router = APIRouter(prefix="/profiles", tags=["profiles"])

_POINTS = [{"size": 1, "step_ms": 6.2, "fallback_ms": 13.9}, {"size": 8, "step_ms": 6.6, "fallback_ms": 14.2}]
EXAMPLES = {
    "two sizes": Example(
        value={"schema": 1, "name": "my-gpu", "families": {"decode_full": {"unit": "requests", "points": _POINTS}}}
    )
}


class ProfilesQuery(PageQuery):
    """`limit` counts stored profiles; the shipped ones come with the first page."""

    limit: Annotated[int, Field(ge=1, le=500)] = 500


@router.get("")
def list_profiles(store: InStore, query: Annotated[ProfilesQuery, Query()]) -> ProfilesModel:
    """Shipped profiles by name, then imported and measured ones, newest first."""
    page = store.profiles.page(query.limit, query.after)
    shipped = [] if query.after else [ProfileSummary.from_domain(p, origin="shipped") for p in shipped_profiles()]
    stored = [profile_view(profile) for profile in page.items]
    return ProfilesModel(items=(*shipped, *stored), next_after=page.next_after)


@router.get("/{ref}")
def show(store: InStore, ref: str) -> ProfileModel:
    """One profile with its points, by shipped name, id or stored name."""
    profile = find_profile(ref, store, files=False)
    stored = None if profile in shipped_profiles() else store.profiles.find(ref)
    summary = ProfileSummary.from_domain(profile, origin="shipped") if stored is None else profile_view(stored)
    return ProfileModel(**summary.model_dump(), document=json.loads(dump_profile(profile)))


@router.post("", status_code=201)
def import_profile(
    store: InStore,
    owner: InOwner,
    response: Response,
    document: Annotated[dict[str, Any], Body(openapi_examples=EXAMPLES)],
    key: IdempotencyKey = None,
) -> ProfileSummary:
    """Store a profile file. The same content twice is the same profile."""
    profile = parse_profile(json.dumps(document))
    refuse_shipped_name(profile.name)
    stored = store.profiles.add(profile)
    asked = key_of(key, owner, "profile", {"id": stored.id})
    mark(response, asked is not None and store.idempotency.remember(asked, stored.id))
    return profile_view(stored)


def refuse_shipped_name(name: str) -> None:
    """Raises:
    Conflict: a shipped profile has that name.
    """
    if any(name == shipped.name for shipped in shipped_profiles()):
        raise Conflict(f"'{name}' is the name of a shipped profile; give yours another", field="name")


@router.post("/measure", status_code=202)
def measure(
    context: InContext, owner: InOwner, response: Response, asked: MeasurementCreate, key: IdempotencyKey = None
) -> MeasurementModel:
    """Queue the measurement of a built-in model on a GPU worker; follow it at /measurements/ID."""
    refuse_shipped_name(asked.name)
    if asked.model not in builtin_names():
        raise BadUsage(f"is not a built-in model, only {', '.join(builtin_names())}", field="model")
    worker = asked.worker.model_dump(mode="json", exclude_defaults=True)
    new = NewMeasurement(asked.model, asked.name, asked.priority, owner, worker)
    stored, replayed = context.store.sweeps.create_once(
        new, key_of(key, owner, "measurement", asked), most_queued=context.settings.max_queued_per_user
    )
    mark(response, replayed)
    response.headers["Location"] = f"/api/v1/measurements/{stored.id}"
    return measurement_view(stored)


@router.delete("/{ref}", status_code=204)
def delete(store: InStore, ref: str) -> None:
    """Forget an imported profile."""
    store.profiles.delete(ref)
