"""Where a list tips over and how long it keeps a promise, in words."""

from __future__ import annotations

from typing import Any

from dashboard.feedback_words import kept_words, rows, tipping_words
from services.contract.load import LoadCurvesModel


def report(slo_share: float | None, overloaded: bool = False) -> dict[str, Any]:
    names = ("load_share", "queue_wait_p50_s", "queue_wait_p99_s", "share_at_cap", "utilisation", "makespan_s")
    known: dict[str, Any] = dict.fromkeys(names)
    known |= {"ttft_p50_s": 0.02, "ttft_p99_s": 0.2, "tpot_mean_ms": 9.0, "mean_running": 40.0, "peak_running": 50}
    known |= {"throughput_tokens_per_s": 5000.0, "completed": 10, "rejected": 0, "overloaded": overloaded}
    return known | {"slo_share": slo_share, "goodput_requests_per_s": None if slo_share is None else 5.0 * slo_share}


def found(default: list[float | None], tuned: list[float | None]) -> LoadCurvesModel:
    curves = {
        "default": {"sizes": [1], "reports": [report(share) for share in default], "tipping_load": 2.5},
        "tuned": {"sizes": [1], "reports": [report(share) for share in tuned], "tipping_load": None},
    }
    return LoadCurvesModel.model_validate({"loads": [1.0, 2.0, 3.0], "curves": curves})


def test_the_tipping_load_is_named_for_every_list() -> None:
    said = tipping_words(found([1.0, 1.0, 0.2], [1.0, 1.0, 1.0]))
    assert said == "The queue grows without end: **default** at 2.50 × and **tuned** above 3.00 × the recorded rate."


def test_a_promise_that_was_broken_once_is_not_kept_at_a_higher_load() -> None:
    said = kept_words(found([0.995, 0.8, 1.0], [0.5, 1.0, 1.0]))
    assert "**default** up to 1.00 ×" in said and "**tuned** at none of these loads" in said and "99%" in said


def test_goodput_stands_in_the_table_only_where_something_was_promised() -> None:
    promised, nothing = rows(found([1.0] * 3, [1.0] * 3)), rows(found([None] * 3, [None] * 3))
    assert promised[0]["Goodput"] == "5.00 requests/s" and len(promised) == 6
    assert "Goodput" not in nothing[0] and nothing[0]["Queue"] == "holds"
