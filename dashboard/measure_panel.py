"""Measuring a model on a worker: ask for it, and follow what was asked for."""

from __future__ import annotations

import re

import streamlit as st

from dashboard import names, text
from dashboard.costs_picker import pick_model
from dashboard.state import api, choose, chosen, readable_errors
from dashboard.tables import table
from dashboard.worker_picker import pick_worker
from services.contract.measurement import MeasurementCreate, MeasurementModel
from services.contract.profile import ProfileSummary

_POLL_S = 2.0
_LIVE = ("queued", "running")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def measure_panel(known: list[ProfileSummary]) -> None:
    """A form to measure one more model, open where there is no profile yet, and the measurements so far."""
    st.subheader("Measure a model")
    with st.expander("On a worker of this installation", expanded=not known):
        _form({profile.name for profile in known})
    live = any(job.state in _LIVE for job in api().measurements().items)
    st.fragment(_jobs, run_every=_POLL_S if live else None)(live)


def _form(taken: set[str]) -> None:
    left, right = st.columns(2)
    with left:
        model = pick_model()
    default = f"{model}-here"
    name = right.text_input("Name of the profile", chosen("as") or default, max_chars=200, key=f"as-{model}").strip()
    choose("as", None if name == default else name)
    problem = name_problem(name, taken)
    if problem:
        right.error(problem)
    worker = pick_worker()
    wrong = problem or worker.problem
    if st.button("Start measuring", type="primary", icon=":material/speed:", disabled=wrong is not None):
        with readable_errors():
            api().measure_profile(MeasurementCreate(model=model, name=name, worker=worker.wish))
            st.rerun()


def name_problem(name: str, taken: set[str]) -> str | None:
    """Why a profile cannot be called so; None where it can."""
    if not _NAME.fullmatch(name):
        return "A name starts with a letter or digit and goes on with letters, digits, dots, dashes or underscores."
    return f"There is a profile named {name} already; choose another name." if name in taken else None


def _jobs(was_live: bool) -> None:
    with readable_errors():
        jobs = api().measurements().items
        if not jobs:
            return
        live = [job for job in jobs if job.state in _LIVE]
        if was_live and not live:
            st.rerun()  # the whole page: what was measured is a profile now
        table([_row(job) for job in jobs], "measurements", alt="Measurements")
        for job in live:
            if st.button(f"Cancel {job.name}", key=f"cancel-{job.id}", icon=":material/cancel:"):
                api().cancel_measurement(job.id)
                st.rerun()
        for job in jobs[:3]:
            if job.error is not None:
                st.error(f"{job.name}: {job.error.detail}", icon=":material/error:")


def _row(job: MeasurementModel) -> dict[str, str]:
    took = (job.finished_at - job.started_at).total_seconds() if job.finished_at and job.started_at else None
    return {
        "State": names.STATES[job.state][0],
        "Profile": job.name,
        "Model": job.model,
        "Now": (job.phase or "").replace("_", " "),
        "Asked for": text.ago(job.created_at),
        "Took": "" if took is None else text.duration(took),
    }
