"""Feedback: slow steps make bigger batches; where the batch settles at rising load, and where it no longer does."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import basket, text
from dashboard.case import CaseChoice, pick_case
from dashboard.charts import show
from dashboard.lists import powers_of_two
from dashboard.state import api, pick, readable_errors
from dashboard.tables import table
from services.contract.figures_load import AXES, load_figure
from services.contract.load import LoadCurvesModel, LoadRequest

_MOST_LISTS = 3


def page() -> None:
    st.caption(
        "A slow step lets more requests pile up, and a bigger batch makes the next step slower still. Here the same "
        "requests come in faster and faster, under several lists."
    )
    with readable_errors():
        case = pick_case()
        if case is None:
            return
        if case.trace.kind != "requests":
            st.info(
                "Recorded steps cannot be replayed at another load: choose a trace of requests.",
                icon=":material/swap_horiz:",
            )
            return
        lists = _lists(case)
        with st.spinner("Simulating the service at rising load …"):
            found = curves(_request(case, lists).model_dump_json())
        _tipping(found)
        show(
            load_figure(found, "mean_running"),
            "running",
            "Requests running on average by offered load, one line a list; vertical lines where a list tips over",
        )
        others = [name for name in AXES if name != "mean_running"]
        axis = pick(st.container(), "Also show", others, "axis", show=AXES.__getitem__)
        show(load_figure(found, axis), "by-load", f"{AXES[axis]} by offered load, one line a list")
        table(_rows(found), "load", alt="Service by load")


def _lists(case: CaseChoice) -> dict[str, tuple[int, ...]]:
    """Lists put aside on other pages, a tuned one of this trace, else powers of two."""
    found: dict[str, tuple[int, ...]] = {}
    for item in basket.items():
        if item.kind == "list" and item.sizes:
            found[f"{text.count(len(item.sizes), 'sizes')} up to {max(item.sizes)}"] = item.sizes
    for sweep in api().sweeps(limit=20, trace_id=case.trace.id).items:
        if sweep.recommendation_id and sweep.engine == case.engine.spec and "tuned" not in found:
            found["tuned"] = next(iter(api().recommendation(sweep.recommendation_id).lists.values()), ())
    if not found:
        found["powers of two"] = powers_of_two(max(case.default_list()[1], default=512))
    st.caption("Lists that were added to the comparison, and the newest tuned one of this trace, beside the default.")
    return {label: sizes for label, sizes in list(found.items())[-_MOST_LISTS:] if sizes}


def _request(case: CaseChoice, lists: dict[str, tuple[int, ...]]) -> LoadRequest:
    asked = case.request(None)
    return LoadRequest(
        trace_id=asked.trace_id,
        engine=asked.engine,
        profile=asked.profile,
        options=asked.options,
        serving=asked.serving,
        lists={label: list(sizes) for label, sizes in lists.items()},
    )


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def curves(request: str) -> LoadCurvesModel:
    """The answer to a `LoadRequest` as JSON."""
    return api().load_curves(LoadRequest.model_validate_json(request))


def _tipping(found: LoadCurvesModel) -> None:
    parts = []
    for label, curve in found.curves.items():
        tips = curve.tipping_load
        words = f"above {text.digits(found.loads[-1])} ×" if tips is None else f"at {text.digits(tips)} ×"
        parts.append(f"**{label}** {words}")
    st.markdown(f"The queue grows without end: {text.joined(parts)} the recorded rate.")


def _rows(found: LoadCurvesModel) -> list[dict[str, Any]]:
    return [
        {
            "List": label,
            "Load": f"{text.digits(load)} ×",
            "Running": text.digits(report.mean_running or 0.0),
            "Tokens/s": text.count(report.throughput_tokens_per_s),
            "First token, median": text.seconds(report.ttft_p50_s),
            "First token, 99th": text.seconds(report.ttft_p99_s),
            "Per token": text.ms(report.tpot_mean_ms),
            "Queue": "grows" if report.overloaded else "holds",
        }
        for label, curve in found.curves.items()
        for load, report in zip(found.loads, curve.reports, strict=True)
    ]


page()
