"""Long lists, a page at a time; where one stands is in the URL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import streamlit as st

from dashboard.state import choose, chosen

PAGE_ROWS = 50
Item = TypeVar("Item", covariant=True)


class Listed(Protocol[Item]):
    """One page of an API list."""

    @property
    def items(self) -> Sequence[Item]: ...

    @property
    def next_after(self) -> str | None: ...


def page_of(name: str, fetch: Callable[[str | None, int], Listed[Item]]) -> Listed[Item]:
    """The page that the URL names; `turn` draws the buttons that change it."""
    return fetch(chosen(f"{name}_after"), PAGE_ROWS)


def turn(name: str, listed: Listed[Item]) -> None:
    """Buttons to older items and back to the newest; nothing where all fits one page."""
    after = chosen(f"{name}_after")
    if after is None and listed.next_after is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if after is not None and st.button("Newest", icon=":material/first_page:", key=f"{name}-newest"):
            choose(f"{name}_after", None)
            st.rerun()
        if listed.next_after is not None and st.button("Older", icon=":material/chevron_right:", key=f"{name}-older"):
            choose(f"{name}_after", listed.next_after)
            st.rerun()
        st.caption(f"{len(listed.items)} on this page, newest first.")
