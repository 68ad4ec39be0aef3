"""Compare: what was put aside on other pages, side by side; the link holds the basket."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dashboard import basket, compare_sections
from dashboard.basket import Item, Kind
from dashboard.pickers import profile_label, sweep_label
from dashboard.state import api, readable_errors


def page() -> None:
    st.caption(
        "Lists, profiles, results and sweeps that were put aside with “Add to the comparison”. This page's link shares "
        "all of it."
    )
    held = basket.items()
    with readable_errors():
        if held:
            _basket(held)
        else:
            st.info(
                "Nothing to compare yet. Add a list on Coverage, a profile on Measurements, a result on Result, a "
                "sweep on Sweeps, or choose from below.",
                icon=":material/compare_arrows:",
            )
        _add(held)
        compare_sections.results([item for item in held if item.kind == "result"])
        compare_sections.sweeps([item for item in held if item.kind == "sweep"])
        compare_sections.lists([item for item in held if item.kind == "list"])
        compare_sections.profiles([item for item in held if item.kind == "profile"])


def _basket(held: list[Item]) -> None:
    with st.container(horizontal=True):
        for at, item in enumerate(held):
            label = f"Take out {compare_sections.item_label(item)}"
            if st.button(label, icon=":material/close:", key=f"out-{at}"):
                basket.remove(item)
                st.rerun()


def _add(held: list[Item]) -> None:
    """Choose from what is stored, without a way over other pages."""
    with st.expander("Add more", expanded=not held):
        listed = api().sweeps().items
        results = {s.recommendation_id: sweep_label(s) for s in listed if s.recommendation_id is not None}
        columns = st.columns(3)
        with columns[0]:
            _adder("result", "A result", results, held)
        with columns[1]:
            _adder("sweep", "A sweep", {sweep.id: sweep_label(sweep) for sweep in listed}, held)
        with columns[2]:
            _adder("profile", "A profile", {p.ref: profile_label(p) for p in api().profiles().items}, held)


def _adder(kind: Kind, label: str, known: Mapping[str, str], held: list[Item]) -> None:
    """A box that adds what is chosen in it; what is there already is not offered."""
    there = {item.key for item in held if item.kind == kind}
    offered = [key for key in known if key not in there]
    # A new key after every change of the basket empties the box.
    picked = st.selectbox(
        label,
        offered,
        index=None,
        key=f"add-{kind}-{len(held)}",
        format_func=lambda key: known[key],
        placeholder="choose to add it" if offered else "none left",
        disabled=not offered,
    )
    if picked is not None:
        basket.put(kind, picked)
        st.rerun()


page()
