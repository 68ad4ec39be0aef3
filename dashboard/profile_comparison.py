"""Profiles side by side: GPUs, models and strategies, by any figure that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.charts import show
from dashboard.pickers import profile_label
from dashboard.state import Place, api, choose, chosen, pick
from dashboard.tables import table
from services.contract.figures_profile import COMPARED, Curve, compare_curves_figure
from services.contract.profile import ProfileModel, ProfileSummary, doubtful_sizes

MOST_COMPARED = 5
_AT_SIZES = (1, 8, 64, 256)
_WITH_DECODE = "with decode"
Part = tuple[ProfileModel, str]
"""A profile and one of its graph families, which stands for a strategy."""


@st.cache_data(ttl=600, max_entries=32, show_spinner=False)
def profile_of(ref: str) -> ProfileModel:
    """A profile with its points; a stored profile never changes."""
    return api().profile(ref)


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def doubtful_of(ref: str, family: str) -> frozenset[int]:
    """Sizes that read faster than a smaller one by no more than noise."""
    return doubtful_sizes(profile_of(ref).document, family)


def compare_with_others(own: ProfileModel, family: str, listed: Sequence[ProfileSummary]) -> None:
    """The chosen family beside any others, of the same profile too; with no other, the next action."""
    st.subheader("Against other profiles")
    others = {
        f"{profile.ref}~{name}": (profile, name)
        for profile in listed
        for name in profile.families
        if (profile.ref, name) != (own.ref, family)
    }
    if not others:
        st.info("There is no other profile yet: measure another model below, or import a file by `captune profile`.")
        return
    kept = (chosen("against") or "").split(",")
    wanted = [key for key in kept if key in others] or list(others)[:1]
    left, right = st.columns(2, vertical_alignment="bottom")
    picked = left.multiselect(
        "Compare with",
        list(others),
        wanted[:MOST_COMPARED],
        key="against",
        format_func=lambda key: part_label(*others[key]),
        max_selections=MOST_COMPARED,
    )
    choose("against", ",".join(picked))
    compare([(own, family), *((profile_of(others[key][0].ref), others[key][1]) for key in picked)], right)


def compare(parts: Sequence[Part], place: Place) -> None:
    """A figure by a selectable axis, and what differs between the parts as a table. The axis is chosen at `place`."""
    curves = [Curve.of(profile.document, family, part_label(profile, family)) for profile, family in parts]
    known = [axis for axis in COMPARED if any(_knows(curve, axis) for curve in curves)]
    axis = pick(place, "Compare", known, "compare", show=COMPARED.__getitem__)
    show(compare_curves_figure(curves, axis), "profiles", f"{COMPARED[axis].capitalize()} by size, profiles compared")
    rows = [_row(profile, family, curve) for (profile, family), curve in zip(parts, curves, strict=True)]
    table(rows, "profiles", alt="Profiles compared")


def part_label(profile: ProfileSummary, family: str) -> str:
    """The profile's label, with the family where the profile has several."""
    label = profile_label(profile)
    return label if len(profile.families) == 1 else f"{label}, {names.family_name(family).lower()}"


def _knows(curve: Curve, axis: str) -> bool:
    return any(value is not None for value in curve.column("step_ms" if axis == "row_ms" else axis))


def _row(profile: ProfileModel, family: str, curve: Curve) -> dict[str, Any]:
    steps = dict(zip(curve.sizes, curve.column("step_ms"), strict=True))
    return {
        "Profile": profile_label(profile),
        "GPU": (profile.device or {}).get("name", text.UNKNOWN),
        "Model": (profile.model or {}).get("name", text.UNKNOWN),
        "Number format": (profile.model or {}).get("dtype", text.UNKNOWN),
        "Strategy": names.family_name(family),
        **{f"Step at {size}": text.ms(steps.get(size)) for size in _AT_SIZES},
        "Inversions": len(curve.inversions),
        "Capture, all sizes": _WITH_DECODE if curve.captured_with_another else text.seconds(_total(curve, "capture_s")),
        "Memory, all sizes": _WITH_DECODE if curve.captured_with_another else text.mib(_total(curve, "memory_mib")),
        "Starts": text.count(profile.starts),
        "Recorded": str(profile.recorded_at or "")[:10],
    }


def _total(curve: Curve, column: str) -> float | None:
    values = [value for value in curve.column(column) if value is not None]
    return sum(values) if len(values) == len(curve.points) else None
