"""Start: drop a recording and get its audit at once; the way from there to a configuration."""

from __future__ import annotations

import streamlit as st

from dashboard import names, text
from dashboard.audit_panel import audit_panel
from dashboard.comparison import CARD_PX, card_row
from dashboard.state import api, chosen, go, readable_errors
from dashboard.upload import upload
from services.contract.audit import AuditModel
from services.contract.trace import TraceModel

_STEPS = (
    (
        "traces",
        "1. Hand in a trace",
        ":material/upload_file:",
        "Requests as your gateway logged them, or the log of a running engine.",
    ),
    (
        "workload",
        "2. See the traffic",
        ":material/bar_chart:",
        "Which step sizes it makes, and how the engine's capture list meets them today.",
    ),
    (
        "tune",
        "3. Tune the list",
        ":material/tune:",
        "The provably best sizes for your budgets, checked on traffic that was kept out.",
    ),
    (
        "result",
        "4. Take the result",
        ":material/verified:",
        "The verdict with its evidence, and a configuration to paste into the engine.",
    ),
)


def page() -> None:
    st.markdown(
        "An LLM serving engine replays a CUDA graph for every step size that it captured, pads the sizes between, and "
        "runs the rest without a graph. Captune finds **which sizes are worth keeping for your traffic on your GPU**."
    )
    row = card_row()
    for name, title, icon, words in _STEPS:
        with row.container(border=True, width=CARD_PX, height="stretch"):
            st.page_link(f"views/{name}.py", label=f"**{title}**", icon=icon)
            st.caption(words)
    with readable_errors():
        st.subheader("What runs today")
        st.caption("Drop an engine log or a request trace: what its capture list does is told at once.")
        upload("start")
        _standing()


def _standing() -> None:
    newest = api().traces(limit=1).items
    if not newest:
        st.info("Nothing here yet: hand in a trace first.", icon=":material/upload_file:")
        return
    wanted = chosen("trace")
    _audit(newest[0] if wanted in (None, newest[0].id) else api().trace(wanted))
    sweeps = api().sweeps()
    waiting = sum(sweep.state in ("queued", "running") for sweep in sweeps.items)
    done = sum(sweep.state == "complete" for sweep in sweeps.items)
    among = "" if sweeps.next_after is None else f" among the newest {len(sweeps.items)}"
    st.caption(f"{text.count(done, 'sweeps')} finished, {text.count(waiting, 'sweeps')} running or waiting{among}.")


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def _audit_of(trace_id: str) -> AuditModel:
    """Kept for a while: the columns behind an id never change."""
    return api().audit(trace_id, {})


def _audit(trace: TraceModel) -> None:
    """What its list does, by the rules of the engine that it names."""
    audit = _audit_of(trace.id or "")
    with st.container(border=True):
        st.markdown(f"**{trace.name}**, judged by the rules of {names.engine_name(audit.engine)}")
        audit_panel(audit)
        for note in audit.notes:
            st.caption(names.spoken(note))
        with st.container(horizontal=True):
            if st.button("Tune for it", type="primary", icon=":material/tune:"):
                go("tune", trace=trace.id or "")
            if st.button("See its workload", icon=":material/bar_chart:"):
                go("workload", trace=trace.id or "")


page()
