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
    item = {
        "asked": {"capture": [1, 8]}, "effective": {"capture": [1, 8]}, "list_length": 2, "graphs": 4, "starts": 5,
        "figures": {"tpot_ms": figure, "capture_s": once}, "by_rule": {"exact": 0.25, "padded": 0.75, "fallback": 0.0},
        "sizes": [{"rows": 7, "context_tokens": 640, "step_ms": figure}], "predicted_step_ms": None,
        "worst_regret": 0.26, "worst_regret_size": 448, "failures": [],
    }  # fmt: skip
    return EngineEvidenceModel.model_validate(
        {
            "engine": "vllm@0.23.0", "way": "server", "model": "llama-3.1-8b", "device": "NVIDIA H200",
            "workload": "azure", "load": 12.0, "records": "records", "profile": "p", "verdict": "adopt",
            "reasons": ["2 captured sizes instead of 51."],
            "lists": [item | {"name": "default"}, item | {"name": "tuned"}],
            "changes": {}, "thresholds": {"margin_share": 0.01}, "notes": ["7 requests were cut"],
        }
    )  # fmt: skip


def test_the_report_has_a_table_of_what_the_engine_did() -> None:
    plain = made()
    assert "Inside the engine" not in as_markdown(report_of(plain))
    seen = {**plain.evidence, "in_engine": evidence().model_dump(mode="json")}
    found = plain.model_copy(update={"evidence": seen, "verdict": "adopt"})
    text = as_markdown(report_of(found))
    assert "vllm@0.23.0 (server) with llama-3.1-8b on NVIDIA H200, at load 12" in text
    assert "| TPOT ms | 10.500 (10.000 to 11.000) | 10.500 (10.000 to 11.000) |" in text
    assert "| capture s | 6.0 | 6.0 |" in text and "| predicted step ms | unknown | unknown |" in text
    assert "| step ms of 7 at 640 |" in text and "- 7 requests were cut" in text
    assert "Adopt it: confirmed in this engine" in text and "TPOT ms" in as_html(report_of(found))
