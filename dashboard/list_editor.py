"""The capture list on a page: start from one that exists, edit it, and keep it in the URL."""

from __future__ import annotations

import streamlit as st

from dashboard import text
from dashboard.case import CaseChoice
from dashboard.lists import compact, expanded, list_text, parse_sizes, powers_of_two
from dashboard.pickers import sweep_label
from dashboard.state import api, choose, chosen

DEFAULT, RUNNING, TWO, OWN = "default", "running", "two", "own"
_WORDS = {DEFAULT: "The engine's default", RUNNING: "What the log shows running", TWO: "Powers of two", OWN: "My own"}


def edit_list(case: CaseChoice) -> tuple[str, tuple[int, ...]] | None:
    """(name, sizes) of the list to look at; None while the text is no list, which is said at the field."""
    name, default = case.default_list()
    known = _sources(case, name, default)
    source = _source(known)
    if source != OWN:
        st.session_state["list-text"] = list_text(known[source][1])
    elif "list-text" not in st.session_state:
        st.session_state["list-text"] = list_text(expanded(chosen("sizes") or "") or default)
    typed = st.text_area(
        "Capture list",
        key="list-text",
        height="content",
        on_change=_own,
        help="Sizes separated by commas or spaces; 8-64:8 is every eighth from 8 to 64. Edit it: all figures follow.",
    )
    sizes, problem = parse_sizes(typed)
    if problem:
        st.error(problem, icon=":material/error:")
        return None
    choose("sizes", compact(sizes) if source == OWN else None)
    return name, sizes


def use(sizes: tuple[int, ...]) -> None:
    """Make `sizes` the list of the editor; for callbacks and for other pages."""
    st.session_state["list-text"] = list_text(sizes)
    st.session_state["last:sizes"] = compact(sizes)
    _own()


def _own() -> None:
    st.session_state["from"] = OWN
    choose("from", OWN)


def _sources(case: CaseChoice, name: str, default: tuple[int, ...]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Where a list can start from: key -> (words, sizes)."""
    found = {DEFAULT: (f"{_WORDS[DEFAULT]} ({text.count(len(default), 'sizes')})", default)}
    running = case.trace.observation.lists.get(name) if case.trace.observation else None
    if running:
        found[RUNNING] = (f"{_WORDS[RUNNING]} ({text.count(len(running), 'sizes')})", tuple(running))
    for sweep in api().sweeps(limit=20, trace_id=case.trace.id).items:
        if sweep.recommendation_id:
            found[sweep.recommendation_id] = (f"Tuned: {sweep_label(sweep)}", ())
    found[TWO] = (_WORDS[TWO], powers_of_two(max(default, default=512)))
    found[OWN] = (_WORDS[OWN], ())
    return found


def _source(known: dict[str, tuple[str, tuple[int, ...]]]) -> str:
    keys = list(known)
    wanted = chosen("from") or (OWN if chosen("sizes") else DEFAULT)
    if st.session_state.get("from") not in keys:
        st.session_state["from"] = wanted if wanted in keys else DEFAULT
    source = st.selectbox("Start from", keys, key="from", format_func=lambda key: known[key][0])
    choose("from", None if source == DEFAULT else source)
    if source not in (DEFAULT, RUNNING, TWO, OWN):
        lists = api().recommendation(source).lists
        known[source] = (known[source][0], next(iter(lists.values())))
    return source
