"""Coverage: what every size of a list does for this traffic; edit the list and see the scorecard move."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import basket, names, text
from dashboard.case import CaseChoice, pick_case
from dashboard.charts import histogram_chart
from dashboard.comparison import card, card_row, cards
from dashboard.list_editor import edit_list, use
from dashboard.problems import show_problems
from dashboard.state import go, pick, readable_errors
from dashboard.tables import table
from services.contract.coverage import BucketModel, CoverageModel


def page() -> None:
    st.caption("Paste or pick a list, edit it, and see at once what it does to this traffic, size by size.")
    with readable_errors():
        case = pick_case()
        if case is None:
            return
        st.subheader("The list")
        edited = edit_list(case)
        if edited is None:
            return
        name, sizes = edited
        covered = case.score({name: sizes}, drops=True)
        base = case.score(None)
        _scorecard(case, covered, base)
        _actions(case, name, sizes)
        show_problems(covered.problems)
        _histogram(covered)
        _drop(covered, sizes)
        _buckets(covered)
        for note in covered.notes:
            st.caption(names.spoken(note))


def _scorecard(case: CaseChoice, covered: CoverageModel, base: CoverageModel) -> None:
    st.caption(f"Against the engine's default of {text.count(base.scorecard.list_length, 'sizes')}:")
    cards(covered.scorecard, base.scorecard)
    device = (case.profile.device or {}).get("name", "an unknown device")
    st.caption(f"By the recorded profile of {device}, not measured here.")


def _actions(case: CaseChoice, name: str, sizes: tuple[int, ...]) -> None:
    with st.container(horizontal=True):
        if st.button("Export this list", type="primary", icon=":material/ios_share:"):
            use(sizes)
            st.session_state["last:export_of"] = "list"
            go("export", engine=case.engine.spec)
        basket.add_button("list", sizes)


def _histogram(covered: CoverageModel) -> None:
    st.subheader("The list over the traffic")
    family = covered.families.get(covered.decode_family)
    if family is None:
        st.info("This traffic has no decode step: choose another trace.", icon=":material/upload_file:")
        return
    sizes = covered.effective.get(covered.decode_family, ())
    histogram_chart(covered.decode_family, family, {covered.decode_family: sizes})


def _drop(covered: CoverageModel, sizes: tuple[int, ...]) -> None:
    st.subheader("What if I drop this one?")
    rows = {bucket.size: bucket for bucket in covered.buckets if bucket.without is not None}
    if not rows:
        st.caption("No size of this list can be dropped on its own.")
        return
    cheapest = min(rows, key=lambda size: rows[size].without.mean_step_ms or 0.0)  # type: ignore[union-attr]
    keys = list(rows)
    at = pick(
        st.container(),
        "Size to drop",
        keys,
        "drop",
        default=keys.index(cheapest),
        help="The size whose loss costs least is picked first. The steps stay as they are; only their bucket changes.",
    )
    bucket = rows[at]
    _without(covered, bucket)
    st.button(f"Drop {at}", icon=":material/remove:", on_click=use, args=(tuple(s for s in sizes if s != at),))


def _without(covered: CoverageModel, bucket: BucketModel) -> None:
    gone, now = bucket.without, covered.scorecard
    assert gone is not None
    where = f"the bucket {bucket.next_size}" if bucket.next_size else "no graph at all"
    used = f"{text.count(bucket.steps, 'steps')} would run in {where}" if bucket.steps else "No step uses it"
    st.markdown(f"Without **{bucket.size}**: {used}.")
    row = card_row()
    card(row, "Mean step", text.ms, gone.mean_step_ms, now.mean_step_ms, base="now")
    card(row, "Worst regret", text.share, gone.worst_regret, now.worst_regret, relative=False, base="now")
    card(row, "Capture time", text.seconds, gone.capture_s, now.capture_s, base="now")
    card(row, "Graph memory", text.mib, gone.memory_mib, now.memory_mib, base="now")


def _buckets(covered: CoverageModel) -> None:
    st.subheader("Size by size")
    rows = [_row(bucket, covered) for bucket in covered.buckets]
    table(rows, "buckets", alt="Sizes of the list", columns=_COLUMNS)
    st.caption(
        "Break-even: steps after which capturing has paid for itself, against running without a graph, and against "
        "the next larger size. Paid back: how long this traffic takes to make that many steps. Where a size saves "
        "nothing, nothing is shown."
    )


def _row(bucket: BucketModel, covered: CoverageModel) -> dict[str, Any]:
    total = sum(covered.families[covered.decode_family].counts.values()) if covered.families else 0.0
    rate = (covered.steps_per_s or 0.0) * bucket.steps / total if total else 0.0
    back = bucket.marginal_break_even_steps
    return {
        "Size": bucket.size,
        "Steps": round(bucket.steps),
        "Share": 100 * bucket.steps / total if total else None,
        "Exact": round(bucket.exact_steps),
        "Padded slots": round(bucket.padded_slots),
        "Replay ms": bucket.replay_ms,
        "Step ms": bucket.step_ms,
        "No graph ms": bucket.fallback_ms,
        "Capture s": bucket.capture_s,
        "MiB": bucket.memory_mib,
        "Break-even": _whole(bucket.break_even_steps),
        "vs next": _whole(back),
        "Paid back": text.duration(back / rate) if back is not None and rate > 0 else "",
        "Dropped: step ms": bucket.without.mean_step_ms if bucket.without else None,
        "Measured": bucket.measured,
    }


def _whole(steps: float | None) -> int | None:
    return None if steps is None else round(steps)


def _figure(form: str, help: str) -> Any:
    return st.column_config.NumberColumn(format=form, help=help)


_COLUMNS = {
    "Steps": _figure("localized", "Steps that run in this bucket."),
    "Share": _figure("%.1f %%", "Share of the decode steps."),
    "Exact": _figure("localized", "Steps that fill it."),
    "Padded slots": _figure("localized", "Empty slots over all its steps."),
    "Replay ms": _figure("%.2f", "The replay alone, as measured."),
    "Step ms": _figure("%.2f", "A whole step in this bucket."),
    "No graph ms": _figure("%.2f", "A step of as many rows without a graph."),
    "Capture s": _figure("%.3f", "Time to capture this size."),
    "MiB": _figure("%.1f", "Memory that this size adds."),
    "Break-even": _figure("localized", "Steps until captured pays against running without a graph."),
    "vs next": _figure("localized", "Steps until captured pays against the next larger size."),
    "Dropped: step ms": _figure("%.3f", "Mean step of the list without this size."),
}


page()
