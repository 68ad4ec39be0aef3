"""Cost profiles: shipped ones and imported ones."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body

from services.api.context import InStore
from services.catalog import find_profile, shipped_profiles
from services.contract.profile import ProfileModel, ProfilesModel, ProfileSummary
from services.views import profile_view
from tuner.profile_file import dump_profile, parse_profile
from workloads.errors import Conflict

router = APIRouter(prefix="/profiles", tags=["profiles"])

MOST_LISTED = 500


@router.get("")
def list_profiles(store: InStore) -> ProfilesModel:
    """Shipped profiles by name, then imported and measured ones, newest first."""
    shipped = [ProfileSummary.from_domain(profile, origin="shipped") for profile in shipped_profiles()]
    stored = [profile_view(profile) for profile in store.profiles.page(MOST_LISTED).items]
    return ProfilesModel(items=(*shipped, *stored))


@router.get("/{ref}")
def show(store: InStore, ref: str) -> ProfileModel:
    """One profile with its points, by shipped name, id or stored name."""
    profile = find_profile(ref, store, files=False)
    stored = None if profile in shipped_profiles() else store.profiles.find(ref)
    summary = ProfileSummary.from_domain(profile, origin="shipped") if stored is None else profile_view(stored)
    return ProfileModel(**summary.model_dump(), document=json.loads(dump_profile(profile)))


@router.post("", status_code=201)
def import_profile(store: InStore, document: Annotated[dict[str, Any], Body()]) -> ProfileSummary:
    """Store a profile file. The same content twice is the same profile."""
    profile = parse_profile(json.dumps(document))
    if any(profile.name == shipped.name for shipped in shipped_profiles()):
        raise Conflict(f"'{profile.name}' is the name of a shipped profile; give yours another", field="name")
    return profile_view(store.profiles.add(profile))


@router.delete("/{ref}", status_code=204)
def delete(store: InStore, ref: str) -> None:
    """Forget an imported profile."""
    store.profiles.delete(ref)
