"""Plots of a sweep's recorded trials: history, importance, parallel coordinates, timeline."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import names, text
from dashboard.charts import show
from dashboard.client import ApiProblem
from dashboard.state import api, open_tab
from services.contract.coverage import SolveRequest
from services.contract.figures_sweep import history_figure, importance_figure, parallel_figure, timeline_figure
from services.contract.sweep import MEASURE, SweepModel, measured_name
from services.contract.trial import ImportanceModel, TrialModel


def live_plot(sweep: SweepModel, trials: Sequence[TrialModel]) -> None:
    """The history alone, for a sweep that still runs."""
    if any(trial.scorecard for trial in trials):
        _history(sweep, trials)


def sweep_plots(sweep: SweepModel, trials: Sequence[TrialModel]) -> None:
    """All four, of what is recorded so far."""
    if not any(trial.scorecard for trial in trials):
        return
    label, place = open_tab(["History", "Importance", "Parallel coordinates", "Timeline"], "plot")
    with place:
        if label == "History":
            _history(sweep, trials)
        elif label == "Importance":
            _importance(sweep)
        elif label == "Timeline":
            show(timeline_figure(trials), "timeline", "When every trial was recorded")
        elif sum(bool(trial.params) for trial in trials) < 2:
            st.caption("Fewer than two trials were sampled so far.")
        else:
            show(parallel_figure(trials, _axis(sweep)), "parallel", "Parameters and figures of the sampled trials")


def _axis(sweep: SweepModel) -> str:
    return names.OBJECTIVE_AXES[sweep.objective][1]


def _history(sweep: SweepModel, trials: Sequence[TrialModel]) -> None:
    axis = _axis(sweep)
    bound = _bound(sweep) if axis == "mean_step_ms" else None
    show(history_figure(trials, axis, bound), "history", "Objective of every trial and the best so far")
    if bound is not None:
        st.caption(
            f"Exact bound: on the steps that the engine's default makes, no list of any length takes less than "
            f"{text.ms(bound)} a step. A trial is simulated with its own list, whose steps can be a little smaller, so "
            f"its line can pass the bound."
        )


def _importance(sweep: SweepModel) -> None:
    found = importance_of(sweep.id, sweep.trials_done)
    if not found.shares:
        st.caption("Too few sampled trials to say which parameter matters.")
        return
    show(importance_figure(found.shares), "importance", "Share of every parameter in what moved the objective")
    st.caption(f"PED-ANOVA on at most {text.count(found.at_most, 'trials')}.")


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def importance_of(sweep_id: str, trials_done: int) -> ImportanceModel:
    """Importance of the trials so far; `trials_done` is what a new answer hangs on."""
    return api().importance(sweep_id)


def _bound(sweep: SweepModel) -> float | None:
    if sweep.trace_id is None:
        return None
    asked = SolveRequest(
        trace_id=sweep.trace_id,
        engine=sweep.engine,
        profile=measured_name(sweep.id) if sweep.profile == MEASURE else sweep.profile,
        options=sweep.options,
        serving=sweep.serving,
        budget=sweep.budget,
    )
    return floor_of(asked.model_dump_json())


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def floor_of(request: str) -> float | None:
    """The floor of a `SolveRequest` as JSON; None where it cannot be solved, such as a trace that is gone."""
    try:
        return api().solve(SolveRequest.model_validate_json(request)).floor_step_ms
    except ApiProblem:
        return None
