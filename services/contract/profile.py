"""ProfileSummary: a cost profile without its points."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

import numpy as np

from services.contract.plain import Answer, plain
from tuner.confidence import Confidence
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.profile_file import parse_profile
from workloads.histogram import Unit


class FamilySummary(Answer):
    """What was measured of one family; `inversions` counts sizes whose next larger measured size is faster."""

    unit: Unit
    points: int
    smallest: int
    largest: int
    inversions: int
    knows_fallback: bool

    @classmethod
    def from_domain(cls, cost: FamilyCost) -> Self:
        return cls(
            unit=cost.unit,
            points=len(cost.sizes),
            smallest=int(cost.sizes[0]),
            largest=int(cost.sizes[-1]),
            inversions=int(np.count_nonzero(np.diff(cost.bucket_ms()) < 0)),
            knows_fallback=cost.knows_fallback,
        )


class ProfileSummary(Answer):
    """`ref` is what `--profile` and a sweep's `profile` take."""

    ref: str
    origin: Literal["shipped", "stored", "file"]
    id: str | None = None
    name: str
    device: dict[str, Any] | None
    model: dict[str, Any] | None
    software: dict[str, Any] | None
    recorded_at: str | None
    command: str | None
    starts: int | None
    created_at: datetime | None = None
    families: dict[str, FamilySummary]
    knows_prefill: bool

    @classmethod
    def from_domain(
        cls,
        profile: CostProfile,
        *,
        origin: Literal["shipped", "stored", "file"],
        ref: str | None = None,
        id: str | None = None,
        created_at: datetime | None = None,
    ) -> Self:
        return cls(
            ref=ref or profile.name,
            origin=origin,
            id=id,
            name=profile.name,
            device=plain(profile.device),
            model=plain(profile.model),
            software=plain(profile.software),
            recorded_at=profile.recorded_at,
            command=profile.command,
            starts=profile.starts,
            created_at=created_at,
            families={name: FamilySummary.from_domain(cost) for name, cost in profile.families.items()},
            knows_prefill=profile.prefill is not None,
        )


class ProfileModel(ProfileSummary):
    """One profile with its file: `document` is what `captune profile show --json` prints and an import takes."""

    document: dict[str, Any]


def doubtful_sizes(document: Mapping[str, Any], family: str) -> frozenset[int]:
    """Sizes that read faster than a smaller one by no more than noise, so that solving does not count them as faster.

    Args:
        document: as `ProfileModel.document`.
    """
    cost = parse_profile(json.dumps(document)).families[family]
    return frozenset(int(size) for size in cost.sizes[Confidence.of(cost).lifted])


class ProfilesModel(Answer):
    """Shipped profiles first, then stored ones, newest first."""

    items: tuple[ProfileSummary, ...]
    next_after: str | None = None
