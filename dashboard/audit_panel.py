"""What the list that runs today does, in figures and sentences."""

from __future__ import annotations

import streamlit as st

from dashboard import names, text
from dashboard.comparison import card_row
from services.contract.audit import AuditModel
from services.contract.serving import ServingReportModel


def audit_panel(audit: AuditModel) -> None:
    """Shares of steps, the lists, sizes that were never used, and warnings."""
    row = card_row()
    for label, value, help in (
        ("Exact hits", audit.step_share.exact, "Steps that have exactly a captured size."),
        ("Padded hits", audit.step_share.padded, "Steps padded up to a captured size."),
        ("Without a graph", audit.step_share.fallback, "Steps that no graph serves."),
        ("Above the ceiling", audit.above_ceiling, "Steps above the largest size."),
        ("Padding waste", audit.padding_waste, "Padded slots in executed slots."),
    ):
        row.metric(label, text.share(value), help=help, width=165)
    for name, sizes in audit.present.lists.items():
        st.markdown(f"**{name.capitalize()} list, {text.count(len(sizes), 'sizes')}:** {text.short_sizes(sizes)}")
    if audit.never_used:
        unused = text.count(len(audit.never_used), "sizes")
        st.markdown(f"**Never used, {unused}:** {text.short_sizes(audit.never_used)}")
    for warning in audit.warnings:
        st.warning(names.spoken(warning.message), icon=":material/warning:")


def serving_panel(report: ServingReportModel) -> None:
    """Utilisation in a sentence, as a warning where the load is too much."""
    sentence = utilisation_sentence(report)
    if report.overloaded:
        st.warning(sentence, icon=":material/trending_up:")
    else:
        st.write(sentence)


def utilisation_sentence(report: ServingReportModel) -> str:
    load = "an unknown share" if report.load_share is None else text.share(report.load_share)
    running = (
        "" if report.mean_running is None else f" On average {text.digits(report.mean_running)} requests run at once"
    )
    wait = f"one in a hundred waits longer than {text.seconds(report.queue_wait_p99_s)} to start"
    if report.overloaded:
        return (
            f"Overloaded: the engine is offered {load} of the tokens that it can sustain, so its queue grows; {wait}."
        )
    peak = f", {text.count(report.peak_running)} at most" if running else ""
    return f"The engine is offered {load} of the tokens that it can sustain.{running}{peak}; {wait}."
