"""The sections of the comparison: results, sweeps, lists and profiles that were put aside."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import names, text
from dashboard.basket import Item
from dashboard.case import CaseChoice, pick_case
from dashboard.charts import show
from dashboard.client import ApiProblem
from dashboard.evidence import basis
from dashboard.ladders import card_row_of
from dashboard.pickers import profile_label, sweep_label
from dashboard.profile_comparison import compare, profile_of
from dashboard.state import api
from dashboard.sweep_live import best_trial
from dashboard.tables import table
from services.contract.figures_ladders import Rung, ladder_figure
from services.contract.figures_sweep import best_so_far_figure
from services.contract.recommendation import RecommendationModel
from services.contract.scorecard import ScorecardModel
from services.contract.sweep import SweepModel
from services.contract.trial import TrialModel

_MOST_TRIALS = 1000


def item_label(item: Item) -> str:
    """In words; the key alone where what it names is gone."""
    if item.kind == "list":
        sizes = item.sizes
        return f"{text.count(len(sizes), 'sizes')} up to {max(sizes, default=0)}"
    try:
        if item.kind == "profile":
            return profile_label(profile_of(item.key))
        if item.kind == "sweep":
            return f"sweep of {sweep_label(api().sweep(item.key))}"
        return result_title(api().recommendation(item.key))
    except ApiProblem:
        return f"{item.kind} {item.key}"


def result_title(result: RecommendationModel) -> str:
    trace = (result.evidence.get("trace") or {}).get("name", "")
    return f"{trace}, {names.engine_name(result.engine)}, {text.count(result.scorecard.list_length, 'sizes')}"


def results(items: Sequence[Item]) -> None:
    """Tuned and default figures of every result."""
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
                    "Result": f"{result_title(result)}, {label}",
                    "Verdict": names.VERDICTS[result.verdict][0] if label == "tuned" else "",
                    **{name: cell for name, cell in card_row_of(card).items() if name not in ("Exact", "No graph")},
                    "Rests on": basis(result),
                }
            )
    if rows:
        st.subheader("Results")
        table(rows, "results", alt="Results compared")


def sweeps(items: Sequence[Item]) -> None:
    """How fast every sweep came to what, as a figure and a table."""
    found: list[tuple[SweepModel, list[TrialModel]]] = []
    for item in items:
        try:
            sweep = api().sweep(item.key)
            found.append((sweep, list(api().trials(sweep.id, limit=_MOST_TRIALS).items)))
        except ApiProblem as problem:
            st.warning(str(problem), icon=":material/warning:")
    if not found:
        return
    st.subheader("Sweeps")
    lines = {f"{i}. {sweep_label(sweep)}": trials for i, (sweep, trials) in enumerate(found, 1)}
    show(best_so_far_figure(lines, "mean_step_ms"), "best", "Best mean step so far by trial, one line a sweep")
    table([_sweep_row(i, *of) for i, of in enumerate(found, 1)], "compared-sweeps", alt="Sweeps compared")


def _sweep_row(number: int, sweep: SweepModel, trials: Sequence[TrialModel]) -> dict[str, object]:
    best = best_trial(sweep, trials)
    card = best.scorecard if best else None
    seconds = (sweep.finished_at - sweep.started_at).total_seconds() if sweep.finished_at and sweep.started_at else None
    return {
        "Sweep": f"{number}. {sweep_label(sweep)}",
        "State": names.STATES[sweep.state][0],
        "Objective": names.GOALS[sweep.objective],
        "Trials": f"{sweep.trials_done} of {sweep.trials}",
        "Infeasible": sum(trial.state == "infeasible" for trial in trials),
        "Failed": sum(trial.state == "failed" for trial in trials),
        "Best trial": best.number if best else None,
        "Mean step": text.ms(card.mean_step_ms) if card else "",
        "Per token": text.ms(card.tpot_ms) if card else "",
        "Sizes": card.list_length if card else None,
        "Took": "" if seconds is None else text.duration(seconds),
    }


def lists(items: Sequence[Item]) -> None:
    """Every list scored on one case, beside the engine's default."""
    if not items:
        return
    st.subheader("Lists")
    case = pick_case()
    if case is None:
        return
    name, default = case.default_list()
    sizes_by_label = {"Engine default": default}
    sizes_by_label |= {f"{i}. {item_label(item)}": item.sizes for i, item in enumerate(items, 1)}
    scored = {label: _scored(case, name, sizes) for label, sizes in sizes_by_label.items()}
    rungs = [
        Rung(label, card.mean_step_ms, card.list_length, role="default" if label == "Engine default" else "other")
        for label, card in scored.items()
        if isinstance(card, ScorecardModel) and card.mean_step_ms is not None
    ]
    if rungs:
        show(ladder_figure(rungs), "lists", "Mean step of every list", height_px=120 + 40 * len(rungs))
    rows = [
        {
            "List": label,
            **(card_row_of(card) if isinstance(card, ScorecardModel) else {"Mean step": card}),
            "All sizes": text.short_sizes(sizes_by_label[label], 200),
        }
        for label, card in scored.items()
    ]
    table(rows, "lists", alt="Lists compared")


def _scored(case: CaseChoice, name: str, sizes: tuple[int, ...]) -> ScorecardModel | str:
    """The scorecard, or why there is none."""
    try:
        return case.score({name: sizes}).scorecard
    except ApiProblem as problem:
        return str(problem)


def profiles(items: Sequence[Item]) -> None:
    """Measured curves side by side."""
    found = []
    for item in items:
        try:
            found.append(profile_of(item.key))
        except ApiProblem as problem:
            st.warning(str(problem), icon=":material/warning:")
    if not found:
        return
    st.subheader("Profiles")
    common = [name for name in found[0].families if all(name in profile.families for profile in found)]
    if not common:
        st.caption("These profiles have no graph family in common; each is shown by its first one.")
    place = st.columns(2)[0]
    compare([(profile, common[0] if common else next(iter(profile.families))) for profile in found], place)
