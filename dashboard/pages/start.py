"""Start: the way from a recording to a configuration, and where this installation stands on it."""

from __future__ import annotations

import streamlit as st

from dashboard import text
from dashboard.comparison import CARD_PX, card_row
from dashboard.state import api, readable_errors

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
            st.page_link(f"pages/{name}.py", label=f"**{title}**", icon=icon)
            st.caption(words)
    with readable_errors():
        _standing()


def _standing() -> None:
    traces, sweeps = api().traces().items, api().sweeps().items
    if not traces:
        st.info("Nothing here yet: hand in a trace first.", icon=":material/upload_file:")
        return
    waiting = sum(sweep.state in ("queued", "running") for sweep in sweeps)
    done = sum(sweep.state == "complete" for sweep in sweeps)
    st.caption(
        f"Here now: {text.count(len(traces), 'traces')}, {text.count(done, 'finished sweeps')}, "
        f"{text.count(waiting, 'sweeps')} running or waiting."
    )


page()
