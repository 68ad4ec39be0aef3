"""Jobs: what runs and waits in line now, and schedules that will queue more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.pickers import profile_label
from dashboard.state import api, go
from dashboard.tables import table
from services.contract.measurement import MeasurementModel
from services.contract.schedule import ScheduleModel
from services.contract.sweep import MEASURE, SweepModel

_LIVE = ("running", "queued")


def line() -> None:
    """Jobs that run or wait, in the order in which runners take them."""
    st.subheader("Jobs in line")
    sweeps = [sweep for state in _LIVE for sweep in api().sweeps(limit=100, state=state).items]
    measurements = [job for job in api().measurements(limit=100).items if job.state in _LIVE]
    if not sweeps and not measurements:
        st.caption("Nothing runs and nothing waits.")
        return
    table([_job_row(job) for job in in_order([*sweeps, *measurements])], "jobs", alt="Jobs in line")


def in_order(jobs: Sequence[SweepModel | MeasurementModel]) -> list[SweepModel | MeasurementModel]:
    """Running ones first, then by priority and age."""
    return sorted(jobs, key=lambda job: (job.state != "running", -job.priority, job.created_at))


def _job_row(job: SweepModel | MeasurementModel) -> dict[str, Any]:
    if isinstance(job, SweepModel):
        what, done = f"Tune {names.engine_name(job.engine)} for {job.trace_name}", f"{job.trials_done} of {job.trials}"
        starts = job.start_at
    else:
        what, done, starts = f"Measure {job.model} as {job.name}", "", None
    return {
        "State": names.STATES[job.state][0],
        "Job": what,
        "Now": (job.phase or "").replace("_", " "),
        "Trials": done,
        "Priority": job.priority,
        "Not before": "" if starts is None else _moment(starts),
        "Asked for": text.ago(job.created_at),
    }


def schedules() -> None:
    """Schedules with their last error, and a way to end one; with none there, the next action."""
    st.subheader("Schedule")
    found = api().schedules().items
    if not found:
        st.info(
            "Nothing is scheduled. On Tune, choose a cron line or each new upload in place of now.",
            icon=":material/schedule:",
        )
        if st.button("Schedule a sweep", icon=":material/tune:"):
            go("tune", when="cron")
        return
    labels = {profile.ref: profile_label(profile) for profile in api().profiles().items}
    traces = {trace.id: trace.name for trace in api().traces().items}
    rows = [_schedule_row(schedule, labels, traces) for schedule in found]
    table(rows, "schedules", alt="Schedules")
    for schedule in found:
        if schedule.last_error:
            st.warning(f"{schedule.name}: {schedule.last_error}", icon=":material/warning:")
    _ending({schedule.id: schedule for schedule in found})


def _ending(found: dict[str, ScheduleModel]) -> None:
    with st.expander("End a schedule"):
        picked = st.selectbox("Schedule", list(found), format_func=lambda key: found[key].name)
        st.caption("It queues no more jobs; those that it has queued stay.")
        if st.button("End it", icon=":material/delete:"):
            api().delete_schedule(picked)
            st.rerun()


def _schedule_row(schedule: ScheduleModel, labels: dict[str, str], traces: dict[str | None, str | None]) -> Any:
    job = schedule.job
    newest = f"the newest {schedule.trace_name}" if schedule.trace_name else None
    return {
        "Name": schedule.name,
        "When": f"{schedule.cron} (UTC)" if schedule.cron else "every new upload",
        "Trace": newest or traces.get(job.trace_id) or "a trace that is gone",
        "Engine": names.engine_name(job.engine),
        "Costs": f"{job.model}, measured" if job.profile == MEASURE else labels.get(job.profile, job.profile),
        "Next": "" if schedule.next_at is None else _moment(schedule.next_at),
        "Last fired": "never" if schedule.fired_at is None else text.ago(schedule.fired_at),
    }


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
