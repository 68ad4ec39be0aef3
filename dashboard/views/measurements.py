"""Measurements: what every captured size costs, where a larger one is faster, and profiles side by side."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import basket, names, text
from dashboard.charts import show
from dashboard.comparison import card_row
from dashboard.pickers import pick_profile, profile_label
from dashboard.state import api, choose, chosen, pick, readable_errors
from dashboard.tables import table
from services.contract.figures_profile import (
    LAUNCH_BOUND_SHARE,
    Curve,
    capture_figure,
    compare_curves_figure,
    curve_figure,
)
from services.contract.profile import ProfileModel

_MOST_COMPARED = 5


def page() -> None:
    st.caption("Cost profiles: times that were measured with real captures, once for each model and GPU.")
    with readable_errors():
        picked = pick_profile()
        if picked is None:
            return
        profile = profile_of(picked.ref)
        family = pick(st.container(), "Graph family", list(profile.families), "family", show=names.family_name)
        curve = Curve.of(profile.document, family, profile_label(profile))
        _provenance(profile, curve)
        _staircase(curve)
        _capture(curve)
        _compare(profile, family)
        _points(curve)


@st.cache_data(ttl=600, max_entries=32, show_spinner=False)
def profile_of(ref: str) -> ProfileModel:
    """A profile with its points; a stored profile never changes."""
    return api().profile(ref)


def _provenance(profile: ProfileModel, curve: Curve) -> None:
    device = (profile.device or {}).get("name", "unknown device")
    facts = (profile.software or {}).items()
    software = ", ".join(f"{key} {value}" for key, value in facts if value and not isinstance(value, dict | list))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(f"recorded on {device}", color="gray", icon=":material/memory:")
        st.badge(f"{text.count(profile.starts, 'fresh starts')}", color="gray", icon=":material/restart_alt:")
        basket.add_button("profile", profile.ref)
    st.caption(f"Recorded {str(profile.recorded_at or 'at an unknown time')[:10]}. {software}".strip())
    row = card_row()
    row.metric("Measured sizes", text.count(len(curve.points)), width=190)
    row.metric("Largest", text.count(curve.sizes[-1]), width=190)
    row.metric(
        "Inversions", text.count(len(curve.inversions)), help="Sizes whose next larger one is faster.", width=190
    )
    bound = curve.launch_bound_to
    row.metric("Launch-bound up to", text.UNKNOWN if bound is None else text.count(bound), width=190)


def _staircase(curve: Curve) -> None:
    st.subheader("Time of a step")
    show(
        curve_figure(curve),
        "staircase",
        f"Time of a step by captured size for {curve.label}: captured, replay alone and without a graph",
        height_px=400,
    )
    st.caption(
        f"A step takes the time of the next captured size, hence the stairs. Shaded: launch-bound, a step without a "
        f"graph takes at most {LAUNCH_BOUND_SHARE:.0%} longer than a small one."
    )


def _capture(curve: Curve) -> None:
    st.subheader("What capturing costs")
    left, right = st.columns(2)
    for place, column, title in (
        (left, "capture_s", "capture time (s)"),
        (right, "memory_mib", "graph memory (MiB)"),
    ):
        with place:
            if all(value is None for value in curve.column(column)):
                st.caption(f"This profile does not know the {title.partition(' (')[0]}.")
                continue
            show(capture_figure(curve, column, title), column, f"{title.capitalize()} of every size, {curve.label}")


def _compare(profile: ProfileModel, family: str) -> None:
    st.subheader("Against other profiles")
    others = {p.ref: p for p in api().profiles().items if p.ref != profile.ref and family in p.families}
    if not others:
        st.info("No other profile knows this family. `captune profile measure` or `captune profile import` adds one.")
        return
    wanted = [ref for ref in (chosen("against") or "").split(",") if ref in others] or list(others)[:1]
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    picked = left.multiselect(
        "Compare with",
        list(others),
        wanted,
        format_func=lambda ref: profile_label(others[ref]),
        max_selections=_MOST_COMPARED,
    )
    choose("against", ",".join(picked))
    per_row = right.toggle("Per row", help="Divide the time of a step by its size.")
    curves = [Curve.of(profile_of(ref).document, family, profile_label(others[ref])) for ref in picked]
    curves.insert(0, Curve.of(profile.document, family, profile_label(profile)))
    show(
        compare_curves_figure(curves, per_row=per_row), "profiles", "Time of a captured step by size, profiles compared"
    )


def _points(curve: Curve) -> None:
    st.subheader("All points")
    inverted = {curve.sizes[i] for i in curve.inversions}
    table(
        [_row(point, int(point["size"]) in inverted) for point in curve.points],
        "points",
        alt="Measured points",
        columns=_COLUMNS,
    )


def _row(point: Any, inverted: bool) -> dict[str, Any]:
    return {
        "Size": int(point["size"]),
        "Step ms": point.get("step_ms"),
        "Replay ms": point.get("replay_ms"),
        "No graph ms": point.get("fallback_ms"),
        "Spread ms": point.get("spread_ms"),
        "Starts": point.get("starts"),
        "Capture s": point.get("capture_s"),
        "MiB": point.get("memory_mib"),
        "Inversion": inverted,
    }


_COLUMNS = {
    name: st.column_config.NumberColumn(format="%.3f")
    for name in ("Step ms", "Replay ms", "No graph ms", "Spread ms", "Capture s")
} | {"MiB": st.column_config.NumberColumn(format="%.1f")}


page()
