"""Sweeps: what waits, runs and is done; the chosen one live, trial by trial."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.charts import show
from dashboard.comparison import card, card_row
from dashboard.paging import page_of, turn
from dashboard.pickers import clone_parameters, profile_label, sweep_label
from dashboard.state import api, choose, chosen, go, readable_errors
from dashboard.sweep_plots import sweep_plots
from dashboard.tables import table
from services.contract.figures_sweep import history_figure
from services.contract.sweep import SweepModel
from services.contract.trial import TrialModel

_POLL_S = 1.0
_ENDED = ("complete", "failed", "cancelled")
_MOST_ROWS, _MOST_REASONS = 500, 30


def page() -> None:
    st.caption("Tuning jobs. One runs at a time for each runner; the others wait in line.")
    with readable_errors():
        listed = page_of("sweeps", api().sweeps)
        sweeps = {sweep.id: sweep for sweep in listed.items}
        wanted = chosen("sweep")
        if wanted is not None and wanted not in sweeps:
            sweeps[wanted] = api().sweep(wanted)
        if not sweeps:
            st.info("No sweep yet. Choose a trace and an engine, then start one.", icon=":material/tune:")
            if st.button("Start a sweep", type="primary"):
                go("tune")
            return
        ids = list(sweeps)
        index = ids.index(wanted) if wanted in sweeps else 0
        picked = st.selectbox("Sweep", ids, index=index, format_func=lambda key: sweep_label(sweeps[key]))
        choose("sweep", picked)
        # A job that has ended does not change any more, so only a live one is asked again and again.
        live = sweeps[picked].state not in _ENDED
        st.fragment(_watch, run_every=_POLL_S if live else None)(picked, live)
        st.subheader("All sweeps")
        _table(list(listed.items))
        turn("sweeps", listed)


def _watch(sweep_id: str, was_live: bool) -> None:
    with readable_errors():
        sweep = api().sweep(sweep_id)
        trials = _trials(sweep_id)
        if was_live and sweep.state in _ENDED:
            st.rerun()  # the whole page, which then stops polling
        _head(sweep)
        _best(trials)
        _actions(sweep)
        if sweep.state in _ENDED:
            sweep_plots(sweep, trials)
        elif any(trial.scorecard for trial in trials):
            axis = "mean_step_ms" if sweep.objective == "step" else "tpot_ms"
            show(history_figure(trials, axis), "history", "Objective of every trial and the best so far")
        _trial_table(trials)


def _trials(sweep_id: str) -> list[TrialModel]:
    """Every recorded trial; only the new ones are fetched."""
    known: dict[str, list[TrialModel]] = st.session_state.setdefault("trials", {})
    trials = known.setdefault(sweep_id, [])
    while True:
        page_of_trials = api().trials(sweep_id, after=trials[-1].number if trials else -1)
        if not page_of_trials.items:
            return trials
        trials.extend(page_of_trials.items)


def _head(sweep: SweepModel) -> None:
    label, colour, icon = names.STATES[sweep.state]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(label, color=colour, icon=icon)
        st.markdown(f"**{names.engine_name(sweep.engine)}** for **{sweep.trace_name}**, {text.ago(sweep.created_at)}")
    if sweep.error is not None:
        st.error(sweep.error.detail, icon=":material/error:")
    if sweep.state == "failed":
        return
    done = min(1.0, sweep.trials_done / sweep.trials)
    st.progress(1.0 if sweep.state == "complete" else done, text=_progress_words(sweep))


def _progress_words(sweep: SweepModel) -> str:
    trials = f"{text.count(sweep.trials_done)} of {text.count(sweep.trials, 'trials')}"
    if sweep.state == "queued":
        return "Waiting for the runner"
    if sweep.state == "running":
        words = f"{trials} · {sweep.phase.replace('_', ' ')}" if sweep.phase else trials
        left_s = _left_s(sweep)
        return words if left_s is None else f"{words} · about {text.duration(left_s)} left"
    took = None
    if sweep.started_at and sweep.finished_at:
        took = (sweep.finished_at - sweep.started_at).total_seconds()
    return trials if took is None else f"{trials} in {text.duration(took)}"


def _left_s(sweep: SweepModel) -> float | None:
    """Seconds to go at the pace so far; None while too little is done to tell."""
    if sweep.started_at is None or sweep.trials_done < 3:
        return None
    passed_s = (datetime.now(UTC) - sweep.started_at).total_seconds()
    return passed_s / sweep.trials_done * (sweep.trials - sweep.trials_done)


def _best(trials: list[TrialModel]) -> None:
    scored = [t.scorecard for t in trials if t.state == "complete" and t.scorecard and t.scorecard.mean_step_ms]
    default = next((t.scorecard for t in trials if t.source == "default"), None)
    if not scored:
        return
    best = min(scored, key=lambda card: card.mean_step_ms or 0.0)
    row = card_row()
    old_ms = default.mean_step_ms if default else None
    card(row, "Mean step of the best trial", text.ms, best.mean_step_ms, old_ms)
    card(row, "Its sizes", text.count, best.list_length, default.list_length if default else None)
    card(row, "Its capture time", text.seconds, best.capture_s, default.capture_s if default else None)
    card(row, "Its graph memory", text.mib, best.memory_mib, default.memory_mib if default else None)


def _actions(sweep: SweepModel) -> None:
    with st.container(horizontal=True):
        if sweep.recommendation_id and st.button("See the result", type="primary", icon=":material/verified:"):
            go("result", recommendation=sweep.recommendation_id)
        if sweep.state not in _ENDED and st.button("Cancel", icon=":material/cancel:"):
            api().cancel_sweep(sweep.id)
            st.rerun()
        if sweep.state in ("failed", "cancelled") and st.button("Resume", icon=":material/play_arrow:"):
            api().resume_sweep(sweep.id)
            st.rerun()
        if sweep.state in _ENDED and sweep.trace_id and st.button("Clone", icon=":material/content_copy:"):
            go("tune", **clone_parameters(sweep))


def _trial_table(trials: list[TrialModel]) -> None:
    if not trials:
        return
    st.markdown("**Trials**")
    shown = list(reversed(trials))[:_MOST_ROWS]
    table([_trial_row(trial) for trial in shown], "trials", alt="Trials")
    if len(trials) > len(shown):
        st.caption(f"The newest {text.count(len(shown))} of {text.count(len(trials), 'trials')}.")
    refused = [trial for trial in trials if trial.reason]
    if refused:
        with st.expander(f"Why {text.count(len(refused), 'trials')} cannot be chosen"):
            for reason, numbers in _by_reason(refused).items():
                st.markdown(f"- {numbers}: {reason}")


def _by_reason(refused: list[TrialModel]) -> dict[str, str]:
    """Reason -> the trials that have it, the first few by number."""
    grouped: dict[str, list[int]] = {}
    for trial in refused:
        grouped.setdefault(trial.reason or "", []).append(trial.number)
    most = 8
    return {
        reason: ("Trial " if len(numbers) == 1 else "Trials ")
        + text.sizes(numbers[:most])
        + (f" and {len(numbers) - most} more" if len(numbers) > most else "")
        for reason, numbers in list(grouped.items())[:_MOST_REASONS]
    }


def _trial_row(trial: TrialModel) -> dict[str, Any]:
    card = trial.scorecard
    return {
        "Trial": trial.number,
        "From": {"default": "engine default", "study": "search"}.get(trial.source, trial.source.replace("_", " ")),
        "Outcome": trial.state.capitalize(),
        "Mean step": text.ms(card.mean_step_ms) if card else "",
        "Per token": text.ms(card.tpot_ms) if card else "",
        "Sizes": card.list_length if card else None,
        "Worst regret": text.share(card.worst_regret) if card else "",
        "Capture": text.seconds(card.capture_s) if card else "",
        "Memory": text.mib(card.memory_mib) if card else "",
    }


def _table(sweeps: list[SweepModel]) -> None:
    labels = {profile.ref: profile_label(profile) for profile in api().profiles().items}
    rows = [
        {
            "State": names.STATES[sweep.state][0],
            "Trace": sweep.trace_name,
            "Engine": names.engine_name(sweep.engine),
            "Cost profile": labels.get(sweep.profile, sweep.profile),
            "Load": f"{sweep.serving.load:g} ×",
            "Trials": f"{sweep.trials_done} of {sweep.trials}",
            "Started": text.ago(sweep.created_at),
        }
        for sweep in sweeps
    ]
    table(rows, "sweeps", alt="Sweeps")


page()
