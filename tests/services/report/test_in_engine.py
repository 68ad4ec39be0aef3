"""A recommendation that was tried inside its engine says what the engine did, in the report as in the terminal."""

from __future__ import annotations

from services.contract.engine_evidence import EngineEvidenceModel
from services.report.content import report_of
from services.report.html import as_html
from services.report.markdown import as_markdown
from tests.services.report.made import made


def evidence() -> EngineEvidenceModel:
    figure = {"mean": 10.5, "low": 10.0, "high": 11.0, "values": 5}
    once = {"mean": 6.0, "low": None, "high": None, "values": 1}
    on = {
        "figures": {"tpot_ms": figure, "mean_step_ms": figure}, "predicted_step_ms": 10.0,
        "by_rule": {"exact": 0.25, "padded": 0.75, "fallback": 0.0},
        "prediction": {
            "step_ms": 10.0, "measured_ms": 10.5, "error_share": -0.0476, "band_share": 0.02, "tolerated_share": 0.03,
            "held": False,
        },
    }  # fmt: skip
    item = {
        "asked": {"capture": [1, 8]}, "effective": {"capture": [1, 8]}, "list_length": 2, "graphs": 4, "starts": 5,
        "figures": {"capture_s": once, "graph_memory_mib": figure}, "by_rule": {}, "predicted_step_ms": None,
        "sizes": [{"rows": 7, "context_tokens": 640, "step_ms": figure}],
        "worst_regret": 0.26, "worst_regret_size": 448, "failures": [],
    }  # fmt: skip
    names = ("default", "tuned")
    workload = {
        "load_share": 0.6, "overloaded": False, "lists": [on | {"name": name} for name in names],
        "changes": {"tpot_ms": {"mean": -0.01, "low": -0.02, "high": 0.0, "values": 5}},
    }  # fmt: skip
    return EngineEvidenceModel.model_validate(
        {
            "engine": "vllm@0.23.0", "way": "server", "model": "llama-3.1-8b", "device": "NVIDIA H200",
            "workload": "conv x12, code x3", "load": None, "records": "records", "profile": "p", "verdict": "adopt",
            "requested_by": "profile p, one list for 2 workloads",
            "reasons": ["2 captured sizes instead of 51."],
            "workloads": [workload | {"name": "conv x12", "load": 12.0}, workload | {"name": "code x3", "load": 3.0}],
            "lists": [item | {"name": name} for name in names],
            "changes": {"capture_s": once}, "thresholds": {"margin_share": 0.01, "written_at": "2026-01-01"},
            "notes": ["7 requests were cut"],
        }
    )  # fmt: skip


def test_the_report_has_a_table_of_what_the_engine_did() -> None:
    plain = made()
    assert "Inside the engine" not in as_markdown(report_of(plain))
    seen = {**plain.evidence, "in_engine": evidence().model_dump(mode="json")}
    found = plain.model_copy(update={"evidence": seen, "verdict": "adopt"})
    text = as_markdown(report_of(found))
    assert "vllm@0.23.0 (server) with llama-3.1-8b on NVIDIA H200; means over its starts" in text
    assert "profile p, one list for 2 workloads" in text and "```\n1, 8\n```" in text
    for title in ("conv x12: every list.", "code x3: predicted against measured."):
        assert title in text
    row = "| tuned | 5 | 4 (2) | unknown | 6.0 | unknown | 0.01 ± 0.00 | unknown | 10.500 ± 0.500 | 10.500 ± 0.500 |"
    assert f"{row} unknown | unknown | 25.00% by rule | 75.00% by rule | 0.00% by rule |" in text
    assert "| TPOT | -1.0% | -2.0% to +0.0% |" in text and "| capture | +600.0% | unknown |" in text
    assert "| tuned | 10.000 | 10.500 ± 0.500 | -4.8% | 2.0% | within 3.0% | missed | 26.0% at 448 |" in text
    assert "| 7 at 640 | 10.500 ± 0.500 |" in text and "- 7 requests were cut" in text
    assert "Thresholds, written 2026-01-01, before the first start: margin_share 0.01." in text
    assert "Adopt it: confirmed in this engine" in text and '<table class="wide">' in as_html(report_of(found))
