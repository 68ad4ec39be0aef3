"""The basket: lists, profiles, results and sweeps to be compared; it lives in the URL, so a link shares it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

from dashboard.lists import compact, expanded
from dashboard.state import choose, chosen

Kind = Literal["list", "profile", "result", "sweep"]
KINDS: tuple[Kind, ...] = ("list", "profile", "result", "sweep")
MOST_ITEMS = 8


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to compare: `key` is compact sizes, a profile's ref, or the id of a result or sweep."""

    kind: Kind
    key: str

    @property
    def sizes(self) -> tuple[int, ...]:
        return expanded(self.key)

    def __str__(self) -> str:
        return f"{self.kind}~{self.key}"


def items() -> list[Item]:
    """What the URL holds, in order."""
    found = []
    for part in (chosen("basket") or "").split(","):
        kind, _, key = part.partition("~")
        if key:
            found += [Item(known, key) for known in KINDS if known == kind]
    return found[:MOST_ITEMS]


def put(kind: Kind, key: str) -> None:
    """Add to the basket; the oldest goes when it is full."""
    kept = [item for item in items() if item != Item(kind, key)]
    _keep([*kept, Item(kind, key)][-MOST_ITEMS:])


def remove(item: Item) -> None:
    _keep([other for other in items() if other != item])


def add_button(kind: Kind, key: str | tuple[int, ...], *, suffix: str = "") -> None:
    """A button that puts something into the basket, or says that it is there."""
    text = compact(key) if isinstance(key, tuple) else key
    there = Item(kind, text) in items()
    label = "In the comparison" if there else "Add to the comparison"
    icon = ":material/check:" if there else ":material/compare_arrows:"
    if st.button(label, icon=icon, disabled=there, key=f"basket-{kind}{suffix}"):
        put(kind, text)
        st.rerun()


def _keep(kept: list[Item]) -> None:
    choose("basket", ",".join(str(item) for item in kept) or None)
