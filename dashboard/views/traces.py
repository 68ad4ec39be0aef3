"""Traces: hand in recorded traffic, see what was understood, rename it, delete it."""

from __future__ import annotations

import streamlit as st

from dashboard import names, text
from dashboard.comparison import card_row
from dashboard.paging import page_of, turn
from dashboard.pickers import pick_trace
from dashboard.state import api, choose, go, readable_errors
from dashboard.tables import table
from dashboard.upload import changed, upload
from services.contract.trace import TraceModel


def page() -> None:
    st.caption("Recorded traffic: request traces, engine logs, or a size,count histogram. Prompt texts are never kept.")
    upload("traces")
    with readable_errors():
        listed = page_of("traces", api().traces)
        if not listed.items:
            st.info("No trace yet. Drop a file above; `captune demo` shows the whole way on a bundled sample.")
            return
        picked = pick_trace()
        if picked is None:
            return
        _details(api().trace(picked.id or ""))
        st.subheader("All traces")
        _table(list(listed.items))
        turn("traces", listed)


def _details(trace: TraceModel) -> None:
    with st.container(border=True):
        row = card_row()
        row.metric("Format", names.format_name(trace.format), width=190)
        row.metric("Rows kept", text.count(trace.rows_kept), help=f"of {text.count(trace.rows_read)} read", width=190)
        row.metric("Span", text.duration(trace.span_s), width=190)
        label, value = _rate(trace)
        row.metric(label, value, width=190)
        for reason, rows in trace.dropped.items():
            if rows:
                st.caption(f"Dropped {text.count(rows, 'rows')}: {reason.replace('_', ' ')}")
        for note in trace.notes:
            st.caption(note[:1].upper() + note[1:])
        _actions(trace)


def _rate(trace: TraceModel) -> tuple[str, str]:
    rate = trace.summary.get("rate_per_s")
    if rate is not None:
        return "Requests per second", text.digits(rate)
    steps = trace.summary.get("steps")
    return "Steps", text.count(steps)


def _actions(trace: TraceModel) -> None:
    with st.container(horizontal=True):
        identity = trace.id or ""
        if st.button("Tune for this trace", type="primary", icon=":material/tune:"):
            go("tune", trace=identity)
        if st.button("See its workload", icon=":material/bar_chart:"):
            go("workload", trace=identity)
        _rename(trace)
        with st.popover("Delete", icon=":material/delete:"):
            st.write(f"Delete **{trace.name}**? Finished results keep their figures.")
            if st.button("Delete it", type="primary"):
                with readable_errors():
                    api().delete_trace(identity)
                    choose("trace", None)
                    changed()
                    st.session_state.pop("stored_trace", None)
                    st.rerun()


def _rename(trace: TraceModel) -> None:
    with st.popover("Rename", icon=":material/edit:"), st.form(f"rename-{trace.id}", border=False):
        name = st.text_input("New name", trace.name or "", max_chars=300)
        if st.form_submit_button("Rename it", type="primary") and name.strip():
            with readable_errors():
                api().rename_trace(trace.id or "", name.strip())
                changed()
                st.session_state.pop("stored_trace", None)
                st.rerun()


def _table(traces: list[TraceModel]) -> None:
    rows = [
        {
            "Name": trace.name,
            "Format": names.format_name(trace.format),
            "Holds": names.KINDS.get(trace.kind, trace.kind),
            "Rows kept": trace.rows_kept,
            "Dropped": trace.rows_read - trace.rows_kept,
            "Why dropped": ", ".join(f"{reason.replace('_', ' ')}: {n:,}" for reason, n in trace.dropped.items() if n),
            "Span": text.duration(trace.span_s),
            "Uploaded": text.ago(trace.created_at),
        }
        for trace in traces
    ]
    whole = st.column_config.NumberColumn(format="localized")
    table(rows, "traces", alt="All traces", columns={"Rows kept": whole, "Dropped": whole})


page()
