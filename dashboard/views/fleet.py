"""Fleet: the devices that measure, what they do now, what waits in line, and the tuning jobs to come."""

from __future__ import annotations

import streamlit as st

from dashboard.fleet_jobs import line, schedules
from dashboard.fleet_workers import workers
from dashboard.state import readable_errors

_POLL_S = 5.0


def page() -> None:
    st.caption("The devices that measure, what they do now, and tuning jobs by the clock or by upload.")
    st.fragment(_now, run_every=_POLL_S)()
    with readable_errors():
        schedules()


def _now() -> None:
    with readable_errors():
        workers()
        line()


page()
