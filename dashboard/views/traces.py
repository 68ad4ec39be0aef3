"""Traces: hand in recorded traffic, see what was understood, name it, tag it, delete it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from dashboard import names, text
from dashboard.comparison import card_row
from dashboard.paging import page_of, turn
from dashboard.pickers import pick_trace
from dashboard.state import api, choose, chosen, go, pick, readable_errors
from dashboard.tables import table
from dashboard.upload import changed, upload
from services.contract.trace import TraceChange, TraceModel

_ALL = ""


def page() -> None:
    st.caption("Recorded traffic: request traces, engine logs, or a size,count histogram. Prompt texts are never kept.")
    upload("traces")
    with readable_errors():
        known = api().traces().items
        if not known:
            st.info("No trace yet. Drop a file above; `captune demo` shows the whole way on a bundled sample.")
            return
        picked = pick_trace()
        if picked is None:
            return
        _details(api().trace(picked.id or ""))
        st.subheader("All traces")
        tag = _pick_tag(known)
        listed = page_of("traces", partial(api().traces, tag=tag))
        if not listed.items:
            st.info(f"No trace has the tag {tag} any more: choose another one.", icon=":material/label_off:")
            return
        _table(list(listed.items))
        turn("traces", listed)


def _pick_tag(traces: Sequence[TraceModel]) -> str | None:
    """The tag that the table is narrowed to; no box where nothing is tagged."""
    linked = chosen("tag")
    tags = {tag for trace in traces for tag in trace.tags} | ({linked} if linked else set())
    if not tags:
        return None
    picked = pick(st.container(width=280), "Tag", [_ALL, *sorted(tags)], "tag", show=lambda tag: tag or "All")
    return picked or None


def _details(trace: TraceModel) -> None:
    with st.container(border=True):
        row = card_row()
        row.metric("Format", names.format_name(trace.format), width=178)
        row.metric("Rows kept", text.count(trace.rows_kept), help=f"of {text.count(trace.rows_read)} read", width=178)
        row.metric("Span", text.duration(trace.span_s), width=178)
        label, value = _rate(trace)
        row.metric(label, value, width=178)
        row.metric("Evidence", _origin(trace), width=178, help="How the sizes of its steps are known.")
        for tag in trace.tags:
            st.badge(tag, icon=":material/label:", color="gray")
        for reason, rows in trace.dropped.items():
            if rows:
                st.caption(f"Dropped {text.count(rows, 'rows')}: {reason.replace('_', ' ')}")
        for note in trace.notes:
            st.caption(names.spoken(note))
        _actions(trace)


def _rate(trace: TraceModel) -> tuple[str, str]:
    rate = trace.summary.get("rate_per_s")
    if rate is not None:
        return "Requests per second", text.digits(rate)
    steps = trace.summary.get("steps")
    return "Steps", text.count(steps)


def _origin(trace: TraceModel) -> str:
    if trace.kind == "requests":
        return "Simulated"
    return names.EVIDENCE.get(trace.origin or "", text.UNKNOWN)


def _actions(trace: TraceModel) -> None:
    with st.container(horizontal=True):
        identity = trace.id or ""
        if st.button("Tune for this trace", type="primary", icon=":material/tune:"):
            go("tune", trace=identity)
        if st.button("See its workload", icon=":material/bar_chart:"):
            go("workload", trace=identity)
        _rename(trace)
        _tag(trace)
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
                _change(trace, TraceChange(name=name.strip()))


def _tag(trace: TraceModel) -> None:
    with st.popover("Tags", icon=":material/label:"), st.form(f"tags-{trace.id}", border=False):
        typed = st.text_input("Tags, separated by commas", ", ".join(trace.tags), max_chars=300)
        if st.form_submit_button("Keep these tags", type="primary"):
            with readable_errors():
                _change(trace, TraceChange(tags=[part.strip()[:40] for part in typed.split(",") if part.strip()][:20]))


def _change(trace: TraceModel, change: TraceChange) -> None:
    """Store what was changed, and start the page afresh."""
    api().change_trace(trace.id or "", change)
    changed()
    st.session_state.pop("stored_trace", None)
    st.rerun()


def _table(traces: list[TraceModel]) -> None:
    rows = [
        {
            "Name": trace.name,
            "Format": names.format_name(trace.format),
            "Holds": names.KINDS.get(trace.kind, trace.kind),
            "Evidence": _origin(trace),
            "Rows kept": trace.rows_kept,
            "Dropped": trace.rows_read - trace.rows_kept,
            "Why dropped": ", ".join(f"{reason.replace('_', ' ')}: {n:,}" for reason, n in trace.dropped.items() if n),
            "Span": text.duration(trace.span_s),
            "Per second": trace.rows_kept / trace.span_s if trace.kind == "requests" and trace.span_s else None,
            "Tags": ", ".join(trace.tags),
            "Uploaded": text.ago(trace.created_at),
        }
        for trace in traces
    ]
    whole = st.column_config.NumberColumn(format="localized")
    rate = st.column_config.NumberColumn(format="%.2f", help="Requests per second over the recording.")
    table(rows, "traces", alt="All traces", columns={"Rows kept": whole, "Dropped": whole, "Per second": rate})


page()
