"""Measurements: what every captured size costs, where a larger one is faster, profiles side by side, one more."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import basket, names, text
from dashboard.charts import show
from dashboard.comparison import card_row
from dashboard.measure_panel import measure_panel
from dashboard.pickers import pick_profile, profile_label
from dashboard.profile_comparison import compare_with_others, doubtful_of, profile_of
from dashboard.state import api, pick, readable_errors
from dashboard.tables import table
from services.contract.context_words import context_words
from services.contract.figures_profile import LAUNCH_BOUND_SHARE, Curve, capture_figure, curve_figure
from services.contract.profile import ProfileModel


def page() -> None:
    st.caption("Cost profiles: times that were measured with real captures, once for each model and GPU.")
    with readable_errors():
        picked = pick_profile()
        listed = list(api().profiles().items)
        if picked is not None:
            profile = profile_of(picked.ref)
            family = pick(st.container(), "Graph family", list(profile.families), "family", show=names.family_name)
            curve = Curve.of(profile.document, family, profile_label(profile))
            doubtful = doubtful_of(profile.ref, family)
            _provenance(profile, curve, doubtful)
            _staircase(profile, family, curve, doubtful)
            _capture(curve)
            compare_with_others(profile, family, listed)
            _points(curve, doubtful)
        measure_panel(listed)


def _provenance(profile: ProfileModel, curve: Curve, doubtful: frozenset[int]) -> None:
    device = (profile.device or {}).get("name", "unknown device")
    facts = (profile.software or {}).items()
    software = ", ".join(f"{key} {value}" for key, value in facts if value and not isinstance(value, dict | list))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(f"recorded on {device}", color="gray", icon=":material/memory:")
        st.badge(f"{text.count(profile.starts, 'fresh starts')}", color="gray", icon=":material/restart_alt:")
        basket.add_button("profile", profile.ref)
    st.caption(f"Recorded {str(profile.recorded_at or 'at an unknown time')[:10]}. {software}".strip())
    clear = [i for i in curve.inversions if curve.sizes[i + 1] not in doubtful]
    row = card_row()
    row.metric("Measured sizes", text.count(len(curve.points)), width=170)
    row.metric("Largest", text.count(curve.sizes[-1]), width=170)
    row.metric("Inversions", text.count(len(clear)), help="Sizes whose next larger one is faster.", width=170)
    row.metric(
        "Within noise",
        text.count(len(curve.inversions) - len(clear)),
        help="Inversions that do not repeat between starts and are no larger than the spread: solving ignores them.",
        width=170,
    )
    bound = curve.launch_bound_to
    row.metric("Launch-bound up to", text.UNKNOWN if bound is None else text.count(bound), width=170)


def _staircase(profile: ProfileModel, family: str, curve: Curve, doubtful: frozenset[int]) -> None:
    st.subheader("Time of a step")
    show(
        curve_figure(curve, doubtful=doubtful),
        "staircase",
        f"Time of a step by captured size for {curve.label}: captured, replay alone and without a graph",
        height_px=440,
    )
    shaded = (
        "the profiler saw the GPU idle for a tenth of a step without a graph, or more"
        if curve.busy
        else f"a step without a graph takes at most {LAUNCH_BOUND_SHARE:.0%} longer than a small one"
    )
    st.caption(
        "A step is padded to the next captured size and takes its time, hence the stairs. Hollow marks are inversions "
        f"within noise. Shaded: launch-bound, {shaded}."
    )
    if words := context_words(profile.document["families"][family]):
        st.caption(f"What no list changes. {words}")


def _capture(curve: Curve) -> None:
    st.subheader("What capturing costs")
    if curve.captured_with_another:
        st.caption(
            "These graphs are captured together with those of decode steps, which count seconds and memory of both."
        )
        return
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


def _points(curve: Curve, doubtful: frozenset[int]) -> None:
    st.subheader("All points")
    faster_next = {curve.sizes[i]: curve.sizes[i + 1] for i in curve.inversions}
    table(
        [_row(point, faster_next, doubtful) for point in curve.points],
        "points",
        alt="Measured points",
        columns=_COLUMNS,
    )


def _row(point: Any, faster_next: dict[int, int], doubtful: frozenset[int]) -> dict[str, Any]:
    size = int(point["size"])
    words = "" if size not in faster_next else "within noise" if faster_next[size] in doubtful else "yes"
    return {
        "Size": size,
        "Step ms": point.get("step_ms"),
        "Replay ms": point.get("replay_ms"),
        "No graph ms": point.get("fallback_ms"),
        "Spread ms": point.get("spread_ms"),
        "Starts": point.get("starts"),
        "Capture s": point.get("capture_s"),
        "MiB": point.get("memory_mib"),
        "Inversion": words,
    }


_COLUMNS = {
    name: st.column_config.NumberColumn(format="%.3f")
    for name in ("Step ms", "Replay ms", "No graph ms", "Spread ms", "Capture s")
} | {"MiB": st.column_config.NumberColumn(format="%.1f")}


page()
