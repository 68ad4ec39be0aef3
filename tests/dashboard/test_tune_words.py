"""What the Tune page reads back before a job starts says everything that was asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dashboard.costs_picker import CostsChoice, model_label
from dashboard.pickers import EngineChoice, ServingChoice, clone_parameters
from dashboard.schedule_picker import Timing
from dashboard.tune_summary import Search, summary
from dashboard.worker_picker import worker_words
from services.contract.budget import BudgetModel
from services.contract.model import ModelSummary
from services.contract.sweep import MEASURE, SweepModel
from services.contract.trace import TraceModel
from services.contract.worker_wish import WorkerWish

ENGINE = EngineChoice("vllm@0.33.0", {"max_num_seqs": "64"})
COSTS = CostsChoice(MEASURE, "tiny-llama", "by the costs of **tiny-llama**, which is measured here first")


def trace(kind: str = "requests") -> TraceModel:
    rows = {"rows_read": 10, "rows_kept": 10, "dropped": {}, "first_dropped_line": {}, "notes": ()}
    known: dict[str, Any] = {"id": "t", "name": "monday.csv", "format": "azure_2023", "kind": kind, "span_s": 60.0}
    return TraceModel.model_validate({**known, **rows, "summary": {}, "observation": None})


def test_every_limit_and_the_time_are_read_back() -> None:
    search = Search("token", 8, 0.3, BudgetModel(regret=0.05, max_length=16, max_memory_mib=512, max_capture_s=9))
    serving = ServingChoice("decode", 2.0, 4, None, None)
    said = summary(trace(), ENGINE, COSTS, serving, search, Timing(words="It starts at noon."))
    for part in (
        "time per generated token",
        "vLLM 0.33.0",
        "max_num_seqs=64",
        "monday.csv",
        "2\u00a0× its recorded rate spread over 4 engines",
        "measured here first",
        "5\u00a0% slower",
        "at most 16 sizes",
        "512\u00a0MiB",
        "9.00\u00a0s",
        "8 trials",
        "last 30\u00a0% of the trace is kept out",
        "It starts at noon.",
    ):
        assert part in said, part


def test_what_has_no_order_keeps_nothing_out() -> None:
    search = Search("step", 8, 0.3, BudgetModel(regret=None))
    said = summary(trace("histogram"), ENGINE, COSTS, ServingChoice(None, 1.0, 1, None, None), search, Timing())
    assert "nothing can be kept out" in said and "no regret bound" in said and "as recorded" in said


def test_a_clone_of_a_sweep_that_measured_measures_again() -> None:
    sweep: dict[str, Any] = {"id": "s", "trace_id": "t", "trace_name": "monday.csv", "engine": "vllm@0.33.0"}
    sweep |= {"profile": MEASURE, "model": "tiny-llama", "options": {}, "serving": {}, "budget": {}, "seed": 0}
    sweep |= {"objective": "step", "trials": 5, "holdout_share": 0.3, "state": "complete", "phase": None}
    sweep |= {"trials_done": 5, "error": None, "recommendation_id": None, "created_at": datetime.now(UTC)}
    sweep |= {"started_at": None, "finished_at": None}
    asked = clone_parameters(SweepModel.model_validate(sweep))
    assert (asked["costs"], asked["model"], asked.get("profile")) == ("measured", "tiny-llama", None)
    assert (asked["device"], asked["gpu"], asked["slo_ttft_ms"]) == ("auto", "", "")
    asked = clone_parameters(SweepModel.model_validate({**sweep, "profile": "h200", "model": None}))
    assert (asked["costs"], asked["profile"]) == ("", "h200")


def test_what_is_promised_and_where_is_measured_is_read_back() -> None:
    search = Search("step", 8, 0.3, BudgetModel(), slo_ttft_ms=200, slo_tpot_ms=25)
    said = summary(trace(), ENGINE, COSTS, ServingChoice(None, 1.0, 1, None, None), search, Timing())
    assert "requests that get their first token within 200\u00a0ms and each further one within 25.0\u00a0ms" in said
    assert search.promise() == {"slo_ttft_ms": 200, "slo_tpot_ms": 25}
    assert worker_words(WorkerWish(gpu="H200", memory_gib=100)) == "a GPU of type H200 with at least 100\u00a0GiB"
    assert [worker_words(WorkerWish(device=d)) for d in ("auto", "cpu")] == ["a GPU where there is one", "the CPU"]


def test_the_size_of_a_model_is_said_in_words() -> None:
    words = [
        model_label(ModelSummary(name="m", parameters=weights, layers=2, experts=experts))
        for weights, experts in ((8_030_000_000, None), (119_000, 8))
    ]
    assert words == ["m · 8.03 billion weights", "m · 119 thousand weights, 8 experts"]
