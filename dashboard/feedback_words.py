"""Load curves in words and as rows: where a list tips over, and up to which load it keeps a promise."""

from __future__ import annotations

from typing import Any

from dashboard import text
from services.contract.load import LoadCurveModel, LoadCurvesModel
from services.contract.serving import ServingReportModel

KEPT_SHARE = 0.99
"""A promise is kept while so many requests of a hundred are within it."""


def tipping_words(found: LoadCurvesModel) -> str:
    """The least load at which the queue of each list grows without end."""
    parts = []
    for label, curve in found.curves.items():
        tips = curve.tipping_load
        words = f"above {text.digits(found.loads[-1])} ×" if tips is None else f"at {text.digits(tips)} ×"
        parts.append(f"**{label}** {words}")
    return f"The queue grows without end: {text.joined(parts)} the recorded rate."


def kept_words(found: LoadCurvesModel) -> str:
    """The largest load looked at up to which each list keeps the promise."""
    parts = []
    for label, curve in found.curves.items():
        last = kept_to(found, curve)
        words = "at none of these loads" if last is None else f"up to {text.digits(last)} ×"
        parts.append(f"**{label}** {words}")
    return f"The promise is kept for {KEPT_SHARE:.0%} of the requests: {text.joined(parts)}."


def kept_to(found: LoadCurvesModel, curve: LoadCurveModel) -> float | None:
    """The last load of the grid before the promise is broken for the first time."""
    last = None
    for load, report in zip(found.loads, curve.reports, strict=True):
        if report.slo_share is None or report.slo_share < KEPT_SHARE:
            return last
        last = load
    return last


def rows(found: LoadCurvesModel) -> list[dict[str, Any]]:
    """One row for each list and load; goodput where something was promised."""
    return [
        {
            "List": label,
            "Load": f"{text.digits(load)} ×",
            "Running": text.digits(report.mean_running or 0.0),
            "Tokens/s": text.count(report.throughput_tokens_per_s),
            "First token, median": text.seconds(report.ttft_p50_s),
            "First token, 99th": text.seconds(report.ttft_p99_s),
            "Per token": text.ms(report.tpot_mean_ms),
            **_goodput(report),
            "Queue": "grows" if report.overloaded else "holds",
        }
        for label, curve in found.curves.items()
        for load, report in zip(found.loads, curve.reports, strict=True)
    ]


def _goodput(report: ServingReportModel) -> dict[str, str]:
    if report.slo_share is None or report.goodput_requests_per_s is None:
        return {}
    per_s = text.digits(report.goodput_requests_per_s)
    return {"Within the promise": text.share(report.slo_share), "Goodput": f"{per_s} requests/s"}
