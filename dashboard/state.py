"""What pages share: the client, the state in the URL, and errors as one sentence.

A control whose value goes into the URL needs a key: without one Streamlit takes the new value for a new control, and
loses every second change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import streamlit as st

from dashboard.client import ApiProblem, Client

T = TypeVar("T")
Place = st.delta_generator.DeltaGenerator


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
        st.session_state[f"last:{name}"] = value or None
    st.switch_page(f"views/{page}.py", query_params={name: value for name, value in parameters.items() if value})


def pick(
    place: Place,
    label: str,
    options: Sequence[T],
    name: str,
    *,
    show: Callable[[T], str] = str,
    default: int = 0,
    help: str | None = None,
) -> T:
    """A select box whose choice is a URL parameter, by the text of the option."""
    keys = [str(option) for option in options]
    wanted = chosen(name)
    index = keys.index(wanted) if wanted in keys else default
    picked = place.selectbox(label, options, index=index, key=name, format_func=show, help=help)
    choose(name, str(picked))
    return picked if picked is not None else options[index]


def real(
    place: Place, label: str, name: str, low: float, high: float | None, default: float | None, **look: Any
) -> float | None:
    """A number field whose value is a URL parameter while it is not the default. `look` goes to `st.number_input`."""
    value = _bounded(chosen(name), low, high, default)
    typed: float | None = place.number_input(label, low, high, value, key=name, **look)
    choose(name, None if typed is None or typed == default else f"{typed:.10g}")
    return typed


def whole(
    place: Place, label: str, name: str, low: int, high: int | None, default: int | None, **look: Any
) -> int | None:
    """`real` for whole numbers."""
    value = _bounded(chosen(name), low, high, default)
    typed: int | None = place.number_input(label, low, high, None if value is None else int(value), key=name, **look)
    choose(name, None if typed is None or typed == default else str(typed))
    return typed


def flag(place: Place, label: str, name: str, *, on: bool = False, **look: Any) -> bool:
    """A toggle that is a URL parameter while it is not `on` by default. `look` goes to `st.toggle`."""
    default = {None: on, "yes": True, "no": False}.get(chosen(name), on)
    value: bool = place.toggle(label, default, key=f"toggle-{name}", **look)
    choose(name, None if value == on else "yes" if value else "no")
    return value


def window(place: Place, label: str, name: str, default: tuple[int, int], **look: Any) -> tuple[int, int]:
    """A slider over a part of a whole, in per cent, whose ends are a URL parameter (`20-50`) unless the default."""
    found = re.fullmatch(r"(\d{1,3})-(\d{1,3})", chosen(name) or "")
    value = (int(found[1]), min(100, int(found[2]))) if found else default
    picked: tuple[int, int] = place.slider(label, 0, 100, value, key=name, format="%d %%", **look)
    choose(name, None if picked == default else f"{picked[0]}-{picked[1]}")
    return picked


def open_tab(labels: Sequence[str], name: str) -> tuple[str, Place]:
    """Tabs of which only the open one is filled, so that hidden plots cost nothing; (label, place) of that one.

    Which one is open is a URL parameter unless it is the first.
    """
    wanted = chosen(name)
    places = st.tabs(labels, default=wanted if wanted in labels else None, key=name, on_change="rerun")
    label, place = next((pair for pair in zip(labels, places, strict=True) if pair[1].open), (labels[0], places[0]))
    choose(name, None if label == labels[0] else label)
    return label, place


def folded(label: str, name: str) -> Place | None:
    """A part of the page that is filled only while it is unfolded; None while it is not. The link says which it is."""
    shown = st.expander(label, expanded=chosen(name) == "open", key=name, on_change="rerun")
    choose(name, "open" if shown.open else None)
    return shown if shown.open else None


def _bounded(typed: str | None, low: float, high: float | None, default: float | None) -> float | None:
    """A number of the URL inside the bounds; the default where it is none."""
    try:
        value = float(typed) if typed else None
    except ValueError:
        value = None
    if value is None or value != value:
        return default
    return max(low, value if high is None else min(value, high))
