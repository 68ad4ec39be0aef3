"""The service under both lists, as the evidence of a result has it."""

from __future__ import annotations

from typing import Any

from dashboard.service_panel import service_rows
from dashboard.text import NBSP


def side(kv_tokens: int | None, slo_share: float | None) -> dict[str, Any]:
    names = ("load_share", "queue_wait_p50_s", "queue_wait_p99_s", "share_at_cap", "utilisation", "makespan_s")
    report: dict[str, Any] = dict.fromkeys(names)
    report |= {"ttft_p50_s": 0.02, "ttft_p99_s": 0.2, "tpot_mean_ms": 9.0, "mean_running": 40.0, "peak_running": 50}
    report |= {"throughput_tokens_per_s": 5000.0, "completed": 10, "rejected": 0, "overloaded": False}
    report |= {"slo_share": slo_share, "goodput_requests_per_s": None if slo_share is None else 4.0}
    return {"kv": {}, "kv_tokens": kv_tokens, "admitted_requests": 512, "report": report}


def test_both_lists_stand_side_by_side_with_what_was_promised() -> None:
    tuned, default = service_rows({"tuned": side(900_000, 0.98), "default": side(880_000, 0.9)})
    assert (tuned["List"], tuned["KV cache"], tuned["Goodput"]) == ("Tuned", "900,000 tokens", "4.00 requests/s")
    assert default["Within the promise"] == f"90{NBSP}%" and default["At once, at most"] == "512 requests"


def test_what_is_not_known_is_said_or_left_out() -> None:
    (row,) = service_rows({"tuned": side(None, None), "default": {"report": {"of": "an older release"}}})
    assert row["KV cache"] == "taken as unlimited" and "Goodput" not in row
    assert service_rows(None) == []
