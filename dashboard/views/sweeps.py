"""Sweeps: what waits, runs and is done; the chosen one live, trial by trial."""

from __future__ import annotations

from functools import partial

import streamlit as st

from dashboard import basket, names, text
from dashboard.paging import page_of, turn
from dashboard.pickers import clone_parameters, profile_label, sweep_label
from dashboard.state import api, choose, chosen, go, pick, readable_errors
from dashboard.sweep_live import ENDED, best_cards, head
from dashboard.sweep_plots import live_plot, sweep_plots
from dashboard.tables import table
from dashboard.trial_table import trial_table
from services.contract.sweep import MEASURE, SweepModel
from services.contract.trial import TrialModel

_POLL_S = 1.0
_ANY = "any"


def page() -> None:
    st.caption("Tuning jobs. One runs at a time for each runner; the others wait in line.")
    with readable_errors():
        left, right = st.columns([1, 3])
        state = pick(left, "Show", [_ANY, *names.STATES], "state", show=_state_words)
        listed = page_of("sweeps", partial(api().sweeps, state=None if state == _ANY else state))
        sweeps = {sweep.id: sweep for sweep in listed.items}
        wanted = chosen("sweep")
        if wanted is not None and wanted not in sweeps and state == _ANY:
            sweeps[wanted] = api().sweep(wanted)
        if not sweeps:
            _nothing(state)
            return
        ids = list(sweeps)
        index = ids.index(wanted) if wanted in sweeps else 0
        picked = right.selectbox("Sweep", ids, index, lambda key: sweep_label(sweeps[key]), key="sweep")
        choose("sweep", picked)
        # A job that has ended does not change any more, so only a live one is asked again and again.
        live = sweeps[picked].state not in ENDED
        st.fragment(_watch, run_every=_POLL_S if live else None)(picked, live)
        st.subheader("All sweeps" if state == _ANY else f"{names.STATES[state][0]} sweeps")
        _table(list(listed.items))
        turn("sweeps", listed)


def _state_words(state: str) -> str:
    return "Any state" if state == _ANY else names.STATES[state][0]


def _nothing(state: str) -> None:
    if state != _ANY:
        st.info(f"No sweep is {names.STATES[state][0].lower()}. Show those in any state.", icon=":material/filter_alt:")
        return
    st.info("No sweep yet. Choose a trace and an engine, then start one.", icon=":material/tune:")
    if st.button("Start a sweep", type="primary"):
        go("tune")


def _watch(sweep_id: str, was_live: bool) -> None:
    with readable_errors():
        sweep = api().sweep(sweep_id)
        trials = _trials(sweep_id)
        if was_live and sweep.state in ENDED:
            st.rerun()  # the whole page, which then stops polling
        head(sweep, trials)
        best_cards(sweep, trials)
        _actions(sweep)
        if sweep.state in ENDED:
            sweep_plots(sweep, trials)
        else:
            live_plot(sweep, trials)
        trial_table(trials)


def _trials(sweep_id: str) -> list[TrialModel]:
    """Every recorded trial; only the new ones are fetched."""
    known: dict[str, list[TrialModel]] = st.session_state.setdefault("trials", {})
    trials = known.setdefault(sweep_id, [])
    while True:
        page_of_trials = api().trials(sweep_id, after=trials[-1].number if trials else -1)
        if not page_of_trials.items:
            return trials
        trials.extend(page_of_trials.items)


def _actions(sweep: SweepModel) -> None:
    with st.container(horizontal=True):
        if sweep.recommendation_id and st.button("See the result", type="primary", icon=":material/verified:"):
            go("result", recommendation=sweep.recommendation_id)
        if sweep.state not in ENDED and st.button("Cancel", icon=":material/cancel:"):
            api().cancel_sweep(sweep.id)
            st.rerun()
        if sweep.state in ("failed", "cancelled") and st.button("Resume", icon=":material/play_arrow:"):
            api().resume_sweep(sweep.id)
            st.rerun()
        if sweep.state in ENDED and sweep.trace_id and st.button("Clone", icon=":material/content_copy:"):
            go("tune", **clone_parameters(sweep))
        basket.add_button("sweep", sweep.id)


def _table(sweeps: list[SweepModel]) -> None:
    labels = {profile.ref: profile_label(profile) for profile in api().profiles().items}
    rows = [
        {
            "State": names.STATES[sweep.state][0],
            "Trace": sweep.trace_name,
            "Engine": names.engine_name(sweep.engine),
            "Costs": f"{sweep.model}, measured"
            if sweep.profile == MEASURE
            else labels.get(sweep.profile, sweep.profile),
            "Load": f"{sweep.serving.load:g} ×",
            "Trials": f"{sweep.trials_done} of {sweep.trials}",
            "Asked for": text.ago(sweep.created_at),
            "Took": _took(sweep),
            "Why it failed": sweep.error.detail if sweep.error else "",
        }
        for sweep in sweeps
    ]
    table(rows, "sweeps", alt="Sweeps")


def _took(sweep: SweepModel) -> str:
    if sweep.started_at is None or sweep.finished_at is None:
        return ""
    return text.duration((sweep.finished_at - sweep.started_at).total_seconds())


page()
