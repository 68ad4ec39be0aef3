"""What the columns of a file mean, where the file does not say it: proposed from its header, decided by a person."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dashboard import text
from dashboard.client import ApiProblem
from dashboard.state import api
from services.contract.mapping import MappingModel, MappingRequest, TimeUnit

UNITS: dict[TimeUnit, str] = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "iso": "date and time",
}


def ask_mapping(file: UploadedFile) -> MappingRequest | None:
    """A form with the proposed mapping below a refused file; the decided mapping once it is submitted.

    Files without columns (pictures, logs) get no form.
    """
    proposal = _proposal(file)
    if proposal is None or not proposal.columns:
        return None
    columns = [column.name for column in proposal.columns]
    with st.form(f"mapping-{file.file_id}"):
        st.write("**Say what its columns mean** and it can be read all the same.")
        for question in proposal.questions:
            st.caption(question)
        places = st.columns(3)
        with places[0]:
            arrival = _column("Arrival time", columns, proposal.arrival)
        with places[1]:
            input_tokens = _column("Prompt tokens", columns, proposal.input_tokens)
        with places[2]:
            output_tokens = _column("Generated tokens", columns, proposal.output_tokens)
        unit = st.selectbox(
            "Unit of the arrival time",
            list(UNITS),
            index=None if proposal.time_unit is None else list(UNITS).index(proposal.time_unit),
            format_func=lambda unit: _unit(unit, proposal),
            placeholder="Choose one",
        )
        zone = st.text_input("Time zone", placeholder="UTC, or Europe/Berlin; for dates without one")
        if not st.form_submit_button("Read it like this", type="primary"):
            return None
    return MappingRequest(
        arrival=arrival,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        time_unit=unit,
        time_zone=zone.strip() or None,
    )


def _proposal(file: UploadedFile) -> MappingModel | None:
    key = f"proposal-{file.file_id}"
    if key not in st.session_state:
        try:
            st.session_state[key] = api().propose_mapping(file.name, file)
        except ApiProblem:  # the refusal above has said already what is wrong with this file
            st.session_state[key] = None
    proposal: MappingModel | None = st.session_state[key]
    return proposal


def _column(label: str, columns: Sequence[str], proposed: str | None) -> str | None:
    index = columns.index(proposed) if proposed in columns else None
    return st.selectbox(label, columns, index=index, placeholder="Choose a column")


def _unit(unit: TimeUnit, proposal: MappingModel) -> str:
    """The unit with what it would make of this file, so that the right one shows."""
    for reading in proposal.unit_readings:
        if reading.unit == unit:
            rate = "" if reading.rate_per_s is None else f", {text.digits(reading.rate_per_s)} requests per second"
            return f"{UNITS[unit]} (a span of {text.duration(reading.span_s)}{rate})"
    return UNITS[unit]
