"""What pages share: the client, the state in the URL, and errors as one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from dashboard.client import ApiProblem, Client


@st.cache_resource
def api() -> Client:
    """One client for all page runs of this server."""
    return Client.from_environment()


@contextmanager
def readable_errors() -> Iterator[None]:
    """Show what the API refuses as a sentence; the rest of the block is left out, the rest of the page is not."""
    try:
        yield
    except ApiProblem as problem:
        st.error(str(problem), icon=":material/error:")


def chosen(name: str) -> str | None:
    """The value of a URL parameter; coming back to a page without it, the value it had last in this session."""
    value = st.query_params.get(name) or st.session_state.get(f"last:{name}")
    if value:
        choose(name, value)
    return value or None


def choose(name: str, value: str | None) -> None:
    """Put a value into the URL, or take it out."""
    st.session_state[f"last:{name}"] = value
    if not value:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value


def go(page: str, **parameters: str) -> None:
    """Open another page of ours with these URL parameters."""
    for name, value in parameters.items():
        st.session_state[f"last:{name}"] = value
    st.switch_page(f"pages/{page}.py", query_params=parameters)
