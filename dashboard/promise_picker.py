"""What users are promised: the time to the first token, and the time for each further one."""

from __future__ import annotations

import streamlit as st

from dashboard import text
from dashboard.state import real


def pick_promise() -> tuple[float | None, float | None]:
    """Both in milliseconds; None promises nothing."""
    left, right = st.columns(2)
    free = {"placeholder": "nothing promised", "step": 10.0}
    ttft_ms = real(
        left, "First token within, ms", "slo_ttft_ms", 0.1, 1e9, None, help="From arrival to the first token.", **free
    )
    tpot_ms = real(
        right, "Each further token within, ms", "slo_tpot_ms", 0.1, 1e9, None, help="Mean of a request.", **free
    )
    return ttft_ms, tpot_ms


def promise_words(ttft_ms: float | None, tpot_ms: float | None) -> str:
    """`their first token within 200 ms and each further one within 25 ms`; empty where nothing is promised."""
    first = [] if ttft_ms is None else [f"their first token within {text.ms(ttft_ms)}"]
    return text.joined(first + ([] if tpot_ms is None else [f"each further one within {text.ms(tpot_ms)}"]))
