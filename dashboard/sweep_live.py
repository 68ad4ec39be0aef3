"""A sweep as it stands: state, progress with the time left, the best trial so far, and who works on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st

from dashboard import names, text
from dashboard.comparison import card, card_row
from dashboard.state import api
from services.contract.sweep import MEASURE, SweepModel
from services.contract.trial import TrialModel
from services.contract.worker import WorkerModel

ENDED = ("complete", "failed", "cancelled")
_LEAST_DONE = 3
"""Fewer recorded trials say nothing about the pace."""


def head(sweep: SweepModel, trials: Sequence[TrialModel]) -> None:
    """State, why it failed, progress; while it runs, also who works on it and what happened last."""
    label, colour, icon = names.STATES[sweep.state]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(label, color=colour, icon=icon)
        st.markdown(f"**{names.engine_name(sweep.engine)}** for **{sweep.trace_name}**, {text.ago(sweep.created_at)}")
    if sweep.error is not None:
        st.error(sweep.error.detail, icon=":material/error:")
    if sweep.state == "failed":
        return
    done = min(1.0, sweep.trials_done / sweep.trials)
    st.progress(1.0 if sweep.state == "complete" else done, text=progress_words(sweep, trials))
    if sweep.state == "running":
        activity = _activity(sweep)
        st.caption("  \n".join(line for line in (activity, last_event(trials)) if line))


def progress_words(sweep: SweepModel, trials: Sequence[TrialModel]) -> str:
    """How far it is, in one line."""
    done = f"{text.count(sweep.trials_done)} of {text.count(sweep.trials, 'trials')}"
    if sweep.state == "queued":
        if sweep.start_at is not None and sweep.start_at > datetime.now(UTC):
            return f"Waiting until {sweep.start_at:%Y-%m-%d %H:%M} UTC"
        return "Waiting for the runner"
    if sweep.state == "running":
        words = f"{done} · {sweep.phase.replace('_', ' ')}" if sweep.phase else done
        left_s = seconds_left(sweep, trials)
        return words if left_s is None else f"{words} · about {text.duration(left_s)} left"
    took = None
    if sweep.started_at and sweep.finished_at:
        took = (sweep.finished_at - sweep.started_at).total_seconds()
    return done if took is None else f"{done} in {text.duration(took)}"


def seconds_left(sweep: SweepModel, trials: Sequence[TrialModel], now: datetime | None = None) -> float | None:
    """At the pace of the recorded trials, whatever came before the first (reading, measuring); None while too few."""
    times = sorted(trial.recorded_at for trial in trials if trial.recorded_at is not None)
    if len(times) < _LEAST_DONE:
        return None
    pace_s = (times[-1] - times[0]).total_seconds() / (len(times) - 1)
    since_last_s = ((now or datetime.now(UTC)) - times[-1]).total_seconds()
    return max(0.0, pace_s * (sweep.trials - len(times)) - min(since_last_s, pace_s))


def last_event(trials: Sequence[TrialModel]) -> str | None:
    """The newest trial in words."""
    if not trials:
        return None
    trial = trials[-1]
    said = f"Last: trial {trial.number}, {trial.state}"
    if trial.scorecard is not None:
        said += f", {text.count(trial.scorecard.list_length, 'sizes')}, {text.ms(trial.scorecard.mean_step_ms)}"
    return f"{said}, {text.ago(trial.recorded_at)}."


def worker_words(worker: WorkerModel) -> str:
    """`node7, NVIDIA H200: size 64, seen just now`"""
    size = "starting" if worker.current_size is None else f"size {worker.current_size}"
    return f"{worker.node}, {names.device_name(worker.device)}: {size}, seen {text.ago(worker.seen_at)}"


def _activity(sweep: SweepModel) -> str:
    """Which device works on the sweep now."""
    if sweep.profile != MEASURE:
        return "No device is at work: costs come from a recorded profile, and the search runs beside the runner."
    busy = [worker_words(worker) for worker in api().workers().items if worker.sweep_id == sweep.id]
    if busy:
        return f"At work: {'; '.join(busy)}."
    if (sweep.phase or "").startswith("measuring"):
        return "Waiting for a worker to start."
    return "The measurement is done; the search runs beside the runner."


def best_cards(sweep: SweepModel, trials: Sequence[TrialModel]) -> None:
    """The best trial by the sweep's own objective against the default's; nothing before there is one."""
    best = best_trial(sweep, trials)
    if best is None or best.scorecard is None:
        return
    default = next((trial.scorecard for trial in trials if trial.source == "default"), None)
    label, axis = names.OBJECTIVE_AXES[sweep.objective]
    new, row = best.scorecard, card_row()
    old_ms = getattr(default, axis) if default else None
    card(row, f"{label} of the best trial", text.ms, getattr(new, axis), old_ms)
    card(row, "Its sizes", text.count, new.list_length, default.list_length if default else None)
    card(row, "Its capture time", text.seconds, new.capture_s, default.capture_s if default else None)
    card(row, "Its graph memory", text.mib, new.memory_mib, default.memory_mib if default else None)


def best_trial(sweep: SweepModel, trials: Sequence[TrialModel]) -> TrialModel | None:
    """The complete trial with the least objective."""
    axis = names.OBJECTIVE_AXES[sweep.objective][1]
    found = [(getattr(t.scorecard, axis), t.number, t) for t in trials if t.state == "complete" and t.scorecard]
    known = [(value, number, trial) for value, number, trial in found if value is not None]
    return min(known, key=lambda entry: entry[:2])[2] if known else None
