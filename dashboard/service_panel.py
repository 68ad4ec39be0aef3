"""What users and operator get under the tuned list and under the default, as the simulation of the sweep saw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from pydantic import ValidationError

from dashboard import text
from dashboard.tables import table
from services.contract.recommendation import RecommendationModel
from services.contract.serving import ServingReportModel


def service_panel(result: RecommendationModel) -> None:
    """Nothing where the traffic was recorded steps, which no list serves otherwise."""
    rows = service_rows(result.evidence.get("service"))
    if not rows:
        return
    st.subheader("In service")
    table(rows, "service", alt="Service by list")
    st.caption(
        "The recorded requests, served with each list's own step times and the KV cache that it leaves, where that is "
        "known. Lists whose steps differ in size are compared here, not by their mean step."
    )


def service_rows(service: Any) -> list[dict[str, str]]:
    """A row for the tuned list and one for the default; none where the evidence does not say."""
    if not isinstance(service, Mapping):
        return []
    return [
        row
        for key, label in (("tuned", "Tuned"), ("default", "Engine default"))
        if (row := _row(label, service.get(key))) is not None
    ]


def _row(label: str, side: Any) -> dict[str, str] | None:
    if not isinstance(side, Mapping):
        return None
    try:
        report = ServingReportModel.model_validate(side.get("report"))
    except ValidationError:  # of an older release
        return None
    kv_tokens = side.get("kv_tokens")
    row = {
        "List": label,
        "KV cache": "taken as unlimited" if kv_tokens is None else text.count(kv_tokens, "tokens"),
        "At once, at most": text.count(side.get("admitted_requests"), "requests"),
        "Running on average": text.UNKNOWN if report.mean_running is None else text.digits(report.mean_running),
        "Throughput": f"{text.count(report.throughput_tokens_per_s)} tokens/s",
        "First token, median": text.seconds(report.ttft_p50_s),
        "First token, 99th": text.seconds(report.ttft_p99_s),
        "Per token": text.ms(report.tpot_mean_ms),
    }
    if report.slo_share is not None and report.goodput_requests_per_s is not None:
        row["Within the promise"] = text.share(report.slo_share)
        row["Goodput"] = f"{text.digits(report.goodput_requests_per_s)} requests/s"
    return row
