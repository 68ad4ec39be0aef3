"""The devices that measure: how many do what, each with its work and its last error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.client import ApiProblem
from dashboard.comparison import card_row
from dashboard.pickers import sweep_label
from dashboard.state import api, go
from dashboard.tables import table
from services.contract.worker import WorkerModel

IDLE, BUSY, UNSEEN, LOST, REFUSED = "Idle", "Measuring", "Not seen lately", "Lost", "Refused"
_HELP = {
    IDLE: "Ready for the next measurement.",
    BUSY: "At work on a measurement now.",
    UNSEEN: "Nobody has looked for them in the last minutes; the next measurement does.",
    LOST: "Went away in the middle of a measurement.",
    REFUSED: "There, and of no use as they are: the reason stands below.",
}


def workers() -> None:
    """All devices; with none seen yet, the next action."""
    st.subheader("Workers")
    found = api().workers().items
    if not found:
        st.info(
            "No device has been seen yet. Tuning by a recorded profile needs none; measuring a model starts a worker, "
            "and `captune doctor` says what this machine has.",
            icon=":material/memory:",
        )
        if st.button("Measure a model", icon=":material/speed:"):
            go("measurements")
        return
    row = card_row()
    for label, help in _HELP.items():
        row.metric(label, text.count(sum(state_words(worker) == label for worker in found)), help=help, width=170)
    works = {worker.sweep_id: work_words(worker.sweep_id) for worker in found if worker.sweep_id is not None}
    table([_row(worker, works) for worker in found], "workers", alt="Workers")
    _errors(found)
    for identity, words in works.items():
        if st.button(f"Follow {words}", key=f"follow-{identity}", icon=":material/visibility:"):
            _follow(identity)


def state_words(worker: WorkerModel) -> str:
    """A worker that was only not looked for is not called lost."""
    if worker.state == "lost":
        return LOST if worker.last_error else UNSEEN
    return {"idle": IDLE, "busy": BUSY, "refused": REFUSED}[worker.state]


@st.cache_data(ttl=60, max_entries=64, show_spinner=False)
def work_words(identity: str) -> str:
    """What a job is for: a sweep's label, or the profile that is being measured."""
    try:
        return sweep_label(api().sweep(identity))
    except ApiProblem:
        measured = [job for job in api().measurements().items if job.id == identity]
        return f"the profile {measured[0].name}" if measured else "a job that is gone"


def _follow(identity: str) -> None:
    try:
        api().sweep(identity)
    except ApiProblem:
        go("measurements")
    go("sweeps", sweep=identity, state="")


def _row(worker: WorkerModel, works: Mapping[str, str]) -> dict[str, Any]:
    size = "" if worker.current_size is None else f", size {worker.current_size}"
    versions = (("driver", worker.driver), ("torch", worker.torch), ("Ray", worker.ray), ("Python", worker.python))
    return {
        "Node": worker.node,
        "Device": names.device_name(worker.device),
        "State": state_words(worker),
        "Memory": text.mib(worker.memory_mib),
        "Works on": "" if worker.sweep_id is None else works[worker.sweep_id] + size,
        "Seen": text.ago(worker.seen_at),
        "Software": ", ".join(f"{name} {version}" for name, version in versions if version),
        "Last error": worker.last_error or "",
    }


def _errors(found: Sequence[WorkerModel]) -> None:
    for worker in found:
        if worker.last_error:
            said = f"{worker.node}, {names.device_name(worker.device)}: {worker.last_error}"
            st.warning(said, icon=":material/warning:")
