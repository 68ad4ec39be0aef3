"""Which lists the Feedback page sets beside the engine's default; the choice is in the URL."""

from __future__ import annotations

import streamlit as st

from dashboard import basket, text
from dashboard.case import CaseChoice
from dashboard.lists import powers_of_two
from dashboard.state import api, choose, chosen
from services.contract.sweep import SweepModel

MOST_LISTS = 3
_TWO = "powers of two"


def pick_lists(case: CaseChoice) -> dict[str, tuple[int, ...]]:
    """Label -> sizes of up to `MOST_LISTS` lists: tuned ones of this trace, those put aside, powers of two."""
    known = _known(case)
    wanted = [label for label in (chosen("lists") or "").split("|") if label in known]
    picked = st.multiselect(
        "Lists beside the engine's default",
        list(known),
        wanted or list(known)[:1],
        key="lists",
        max_selections=MOST_LISTS,
        help="Tuned lists of this trace, lists that were added to the comparison, and powers of two.",
    )
    choose("lists", "|".join(picked))
    return {label: known[label] for label in picked}


def _known(case: CaseChoice) -> dict[str, tuple[int, ...]]:
    """What can be chosen, the likeliest first."""
    found: dict[str, tuple[int, ...]] = {}
    tuned = [sweep for sweep in api().sweeps(limit=20, trace_id=case.trace.id).items if sweep.recommendation_id]
    for sweep in sorted(tuned, key=lambda sweep: not _same(sweep, case)):
        if sweep.recommendation_id and sweep.engine == case.engine.spec:
            sizes = next(iter(api().recommendation(sweep.recommendation_id).lists.values()), ())
            found[f"tuned at {sweep.serving.load:g} ×, {text.count(len(sizes), 'sizes')}"] = sizes
    for item in basket.items():
        if item.kind == "list" and item.sizes:
            found[f"{text.count(len(item.sizes), 'sizes')} up to {max(item.sizes)}"] = item.sizes
    found[_TWO] = powers_of_two(max(case.default_list()[1], default=512))
    return {label: sizes for label, sizes in found.items() if sizes}


def _same(sweep: SweepModel, case: CaseChoice) -> bool:
    """Whether a sweep was tuned for these very options and costs."""
    return sweep.options == case.engine.options and sweep.profile == case.profile.ref
