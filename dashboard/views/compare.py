"""Compare: what was put aside on other pages, side by side; the link holds the basket."""

from __future__ import annotations

import streamlit as st

from dashboard import basket, names, text
from dashboard.basket import Item
from dashboard.case import CaseChoice, pick_case
from dashboard.charts import show
from dashboard.client import ApiProblem
from dashboard.evidence import basis
from dashboard.ladders import card_row_of
from dashboard.pickers import profile_label
from dashboard.state import api, readable_errors
from dashboard.tables import table
from services.contract.figures_profile import Curve, compare_curves_figure
from services.contract.recommendation import RecommendationModel


def page() -> None:
    st.caption(
        "Lists, profiles and results that were put aside with “Add to the comparison”. This page's link shares it."
    )
    held = basket.items()
    if not held:
        st.info(
            "Nothing to compare yet. Add a list on Coverage, a profile on Measurements, or a result on Result.",
            icon=":material/compare_arrows:",
        )
        return
    with readable_errors():
        _basket(held)
        _results([item for item in held if item.kind == "result"])
        _lists([item for item in held if item.kind == "list"])
        _profiles([item for item in held if item.kind == "profile"])


def _basket(held: list[Item]) -> None:
    with st.container(horizontal=True):
        for at, item in enumerate(held):
            if st.button(f"Take out {_label(item)}", icon=":material/close:", key=f"out-{at}"):
                basket.remove(item)
                st.rerun()


def _label(item: Item) -> str:
    """In words; the key alone where what it names is gone."""
    if item.kind == "list":
        sizes = item.sizes
        return f"{text.count(len(sizes), 'sizes')} up to {max(sizes, default=0)}"
    try:
        if item.kind == "profile":
            return profile_label(api().profile(item.key))
        return _title(api().recommendation(item.key))
    except ApiProblem:
        return f"{item.kind} {item.key}"


def _title(result: RecommendationModel) -> str:
    trace = (result.evidence.get("trace") or {}).get("name", "")
    return f"{trace}, {names.engine_name(result.engine)}, {text.count(result.scorecard.list_length, 'sizes')}"


def _results(items: list[Item]) -> None:
    if not items:
        return
    st.subheader("Results")
    rows = []
    for item in items:
        try:
            result = api().recommendation(item.key)
        except ApiProblem as problem:
            st.warning(str(problem), icon=":material/warning:")
            continue
        for label, card in (("tuned", result.scorecard), ("default", result.default.scorecard)):
            rows.append(
                {
                    "Result": f"{_title(result)}, {label}",
                    "Verdict": names.VERDICTS[result.verdict][0] if label == "tuned" else "",
                    **{name: cell for name, cell in card_row_of(card).items() if name not in ("Exact", "No graph")},
                    "Rests on": basis(result),
                }
            )
    table(rows, "results", alt="Results compared")


def _lists(items: list[Item]) -> None:
    if not items:
        return
    st.subheader("Lists")
    case = pick_case()
    if case is None:
        return
    name, default = case.default_list()
    rows = [_list_row("Engine default", case, name, default)]
    rows += [_list_row(text.short_sizes(item.sizes, 12), case, name, item.sizes) for item in items]
    table(rows, "lists", alt="Lists compared")


def _list_row(label: str, case: CaseChoice, name: str, sizes: tuple[int, ...]) -> dict[str, object]:
    try:
        return {"List": label, **card_row_of(case.score({name: sizes}).scorecard)}
    except ApiProblem as problem:
        return {"List": label, "Mean step": str(problem)}


def _profiles(items: list[Item]) -> None:
    if not items:
        return
    st.subheader("Profiles")
    profiles = [api().profile(item.key) for item in items]
    common = [name for name in profiles[0].families if all(name in profile.families for profile in profiles)]
    if not common:
        st.warning("These profiles have no graph family in common.", icon=":material/warning:")
        return
    curves = [Curve.of(profile.document, common[0], profile_label(profile)) for profile in profiles]
    show(compare_curves_figure(curves), "profiles", "Time of a captured step by size, profiles compared")


page()
