"""Feedback: slow steps make bigger batches; where the batch settles at rising load, and where it no longer does."""

from __future__ import annotations

import streamlit as st

from dashboard.case import CaseChoice, pick_case
from dashboard.charts import show
from dashboard.feedback_lists import pick_lists
from dashboard.feedback_words import kept_words, rows, tipping_words
from dashboard.promise_picker import pick_promise, promise_words
from dashboard.state import api, pick, readable_errors
from dashboard.tables import table
from services.contract.figures_load import AXES, load_figure
from services.contract.load import LoadCurvesModel, LoadRequest

_FIRST_TOKEN = ("ttft_p99_s", "ttft_p50_s", "queue_wait_p99_s")
_MS = 1e-3


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
        lists = pick_lists(case)
        ttft_ms, tpot_ms = pick_promise()
        with st.spinner("Simulating the service at rising load …"):
            found = curves(_request(case, lists, ttft_ms, tpot_ms).model_dump_json())
        st.markdown(tipping_words(found))
        if ttft_ms is not None or tpot_ms is not None:
            st.markdown(kept_words(found))
        _plots(found, ttft_ms, tpot_ms)
        table(rows(found), "load", alt="Service by load")


def _request(
    case: CaseChoice, lists: dict[str, tuple[int, ...]], ttft_ms: float | None, tpot_ms: float | None
) -> LoadRequest:
    asked = case.request(None)
    return LoadRequest(
        trace_id=asked.trace_id,
        engine=asked.engine,
        profile=asked.profile,
        options=asked.options,
        serving=asked.serving.model_copy(update={"slo_ttft_ms": ttft_ms, "slo_tpot_ms": tpot_ms}),
        lists={label: list(sizes) for label, sizes in lists.items()},
    )


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def curves(request: str) -> LoadCurvesModel:
    """The answer to a `LoadRequest` as JSON."""
    return api().load_curves(LoadRequest.model_validate_json(request))


def _plots(found: LoadCurvesModel, ttft_ms: float | None, tpot_ms: float | None) -> None:
    """The running batch over the whole width, the service in four smaller plots."""
    st.subheader("Where the running batch settles")
    show(
        load_figure(found, "mean_running"),
        "running",
        "Requests running on average by offered load, one line a list; vertical lines where a list tips over",
    )
    st.subheader("What users and operator get")
    first = pick(st.columns(2)[0], "Time to first token as", list(_FIRST_TOKEN), "first", show=AXES.__getitem__)
    upper, lower = st.columns(2), st.columns(2)
    promised_s = ttft_ms * _MS if ttft_ms is not None and first.startswith("ttft") else None
    with upper[0]:
        _plot(found, "throughput_tokens_per_s")
    with upper[1]:
        _plot(found, first, promised_s)
    with lower[0]:
        _plot(found, "tpot_mean_ms", tpot_ms)
    with lower[1]:
        if ttft_ms is None and tpot_ms is None:
            st.info(
                "Goodput counts the requests that kept a promise: say above within how many milliseconds.",
                icon=":material/handshake:",
            )
        else:
            _plot(found, "goodput_requests_per_s")
            st.caption(f"Requests a second that get {promise_words(ttft_ms, tpot_ms)}.")


def _plot(found: LoadCurvesModel, axis: str, promise: float | None = None) -> None:
    show(load_figure(found, axis, promise), axis, f"{AXES[axis].capitalize()} by offered load, one line a list")


page()
