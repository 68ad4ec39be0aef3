"""Traces: hand in recorded traffic, see what was understood, delete it."""

from __future__ import annotations

import streamlit as st

from dashboard import names, text
from dashboard.client import ApiProblem
from dashboard.comparison import card_row
from dashboard.pickers import trace_label
from dashboard.state import api, choose, chosen, go, readable_errors
from services.contract.trace import TraceModel

_LIMIT_MB = 200


def page() -> None:
    st.caption("Recorded traffic: request traces, engine logs, or a size,count histogram. Prompt texts are never kept.")
    _upload()
    with readable_errors():
        traces = {trace.id: trace for trace in api().traces().items if trace.id}
        if not traces:
            st.info("No trace yet. Drop a file above; `captune demo` shows the whole way on a bundled sample.")
            return
        _details(api().trace(_picked(traces)))
        st.subheader("All traces")
        _table(list(traces.values()))


def _upload() -> None:
    # A new key empties the uploader after a file was stored, so that a rerun does not send it again.
    key = f"upload-{st.session_state.get('uploads', 0)}"
    file = st.file_uploader(
        "Trace file",
        key=key,
        max_upload_size=_LIMIT_MB,
        help=f"Up to {_LIMIT_MB} MB here; larger files go through `captune trace import FILE`. "
        "Azure and Mooncake traces, CSV, JSON lines, Parquet, SGLang and vLLM logs are recognised by content.",
    )
    done = st.session_state.get("stored_trace")
    if file is None:
        if done:
            st.success(done, icon=":material/check_circle:")
        return
    if st.session_state.get("refused_file") != file.file_id:
        st.session_state.pop("stored_trace", None)
        try:
            with st.spinner(f"Reading {file.name} …"):
                trace = api().upload_trace(file.name, file)
        except ApiProblem as problem:
            st.session_state["refused_file"], st.session_state["refusal"] = file.file_id, str(problem)
        else:
            st.session_state["uploads"] = st.session_state.get("uploads", 0) + 1
            st.session_state["stored_trace"] = _stored_sentence(trace)
            choose("trace", trace.id)
            st.rerun()
    st.error(f"Nothing was stored. {st.session_state['refusal']}", icon=":material/error:")


def _stored_sentence(trace: TraceModel) -> str:
    dropped = trace.rows_read - trace.rows_kept
    kept = f"kept {text.count(trace.rows_kept)} of {text.count(trace.rows_read, 'rows')}"
    return f"{trace.name} is stored as {names.format_name(trace.format)}: {kept}" + (
        ", none dropped." if not dropped else "."
    )


def _picked(traces: dict[str, TraceModel]) -> str:
    wanted = chosen("trace")
    ids = list(traces)
    index = ids.index(wanted) if wanted in traces else 0
    picked = st.selectbox("Trace", ids, index=index, format_func=lambda key: trace_label(traces[key]))
    choose("trace", picked)
    return picked


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
        with st.popover("Delete", icon=":material/delete:"):
            st.write(f"Delete **{trace.name}**? Finished results keep their figures.")
            if st.button("Delete it", type="primary"):
                with readable_errors():
                    api().delete_trace(identity)
                    choose("trace", None)
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
            "Span": text.duration(trace.span_s),
            "Uploaded": text.ago(trace.created_at),
        }
        for trace in traces
    ]
    whole = st.column_config.NumberColumn(format="localized")
    st.dataframe(rows, hide_index=True, column_config={"Rows kept": whole, "Dropped": whole})


page()
