"""Fleet: the devices that measure, what they do now, and the tuning jobs to come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.comparison import card_row
from dashboard.state import api, readable_errors
from dashboard.tables import table
from services.contract.schedule import ScheduleModel
from services.contract.worker import WorkerModel

_POLL_S = 5.0
_STATES = {"idle": "Idle", "busy": "Measuring", "lost": "Lost", "refused": "Refused"}


def page() -> None:
    st.caption("The devices that measure, what they do now, and tuning jobs by the clock or by upload.")
    st.fragment(_workers, run_every=_POLL_S)()
    with readable_errors():
        _schedules()


def _workers() -> None:
    with readable_errors():
        workers = api().workers().items
        st.subheader("Workers")
        if not workers:
            st.info(
                "No device has been seen yet. Tuning by a recorded profile needs none; `captune doctor` says what this "
                "machine has, and a sweep that measures a model starts a worker.",
                icon=":material/memory:",
            )
            return
        row = card_row()
        for state, label in _STATES.items():
            row.metric(label, text.count(sum(worker.state == state for worker in workers)), width=150)
        table([_worker_row(worker) for worker in workers], "workers", alt="Workers")
        for worker in workers:
            if worker.last_error:
                st.warning(f"{worker.node}, {worker.device}: {worker.last_error}", icon=":material/warning:")


def _worker_row(worker: WorkerModel) -> Mapping[str, Any]:
    work = "" if worker.sweep_id is None else f"sweep {worker.sweep_id}"
    size = "" if worker.current_size is None else f", size {worker.current_size}"
    return {
        "Node": worker.node,
        "Device": worker.device,
        "State": _STATES[worker.state],
        "Memory": text.mib(worker.memory_mib),
        "Works on": work + size,
        "Driver": worker.driver or "",
        "torch": worker.torch or "",
        "Seen": text.ago(worker.seen_at),
    }


def _schedules() -> None:
    st.subheader("Schedule")
    schedules = api().schedules().items
    if not schedules:
        words = "Nothing is scheduled. A schedule is made over the API: POST /api/v1/schedules."
        st.info(words, icon=":material/schedule:")
        return
    table([_schedule_row(schedule) for schedule in schedules], "schedules", alt="Schedules")
    for schedule in schedules:
        if schedule.last_error:
            st.warning(f"{schedule.name}: {schedule.last_error}", icon=":material/warning:")


def _schedule_row(schedule: ScheduleModel) -> Mapping[str, Any]:
    when = f"{schedule.cron} (UTC)" if schedule.cron else "every new upload"
    return {
        "Name": schedule.name,
        "When": when,
        "Trace": schedule.trace_name or schedule.job.trace_id or "",
        "Engine": names.engine_name(schedule.job.engine),
        "Next": "" if schedule.next_at is None else f"{schedule.next_at:%Y-%m-%d %H:%M} UTC",
        "Last fired": "never" if schedule.fired_at is None else text.ago(schedule.fired_at),
    }


page()
