"""An upload that needs a mapping: the question, the proposal, the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

CSV = b"when,prompt text,tokens_in,tokens_out\n0,secret words,10,4\n500,more words,20,5\n1500,x,30,6\n"


def post(api: TestClient, path: str, content: bytes, **form: str) -> Any:
    return api.post(f"/api/v1/traces{path}", files={"file": ("mine.csv", content)}, data=form)


def test_a_mapping_is_proposed_asked_about_and_used(api: TestClient) -> None:
    refused = post(api, "", CSV)
    assert refused.status_code == 422
    assert api.get("/api/v1/traces").json()["items"] == []
    answer = post(api, "/mapping", CSV)
    assert answer.status_code == 200
    proposal = answer.json()
    assert (proposal["format"], proposal["input_tokens"], proposal["output_tokens"]) == (
        None,
        "tokens_in",
        "tokens_out",
    )
    assert [column["kind"] for column in proposal["columns"]] == ["number", "text", "number", "number"]
    assert "secret" not in answer.text
    assert any("arrival" in question for question in proposal["questions"])
    mapping = {"arrival": "when", "input_tokens": "tokens_in", "output_tokens": "tokens_out", "time_unit": "ms"}
    trace = post(api, "", CSV, mapping=json.dumps(mapping)).json()
    assert (trace["rows_kept"], trace["span_s"]) == (3, 1.5)
    assert post(api, "", CSV, mapping=json.dumps(mapping)).json()["id"] == trace["id"]


def test_an_open_unit_is_shown_in_both_readings(api: TestClient) -> None:
    proposal = post(api, "/mapping", b"timestamp,input_length,output_length\n0,10,2\n500,20,3\n1000,30,4\n").json()
    rates = {reading["unit"]: reading["rate_per_s"] for reading in proposal["unit_readings"]}
    assert (rates["s"], rates["ms"]) == (0.003, 3.0)
    assert any("seconds or milliseconds" in question for question in proposal["questions"])


def test_lengths_get_an_arrival_process(api: TestClient) -> None:
    content = b"prompt_len,output_len\n" + b"100,20\n" * 400
    arrivals = {"arrivals": {"kind": "poisson", "rate_per_s": 4, "seed": 2}}
    trace = post(api, "", content, mapping=json.dumps(arrivals)).json()
    assert trace["rows_kept"] == 400
    assert trace["summary"]["rate_per_s"] == pytest.approx(4, rel=0.2)


@pytest.mark.parametrize(
    ("mapping", "field"),
    [
        ("{", "mapping"),
        ('{"colour": "red"}', "mapping.colour"),
        ('{"time_unit": "days"}', "mapping.time_unit"),
        ('{"time_zone": "Mars/Base"}', "time_zone"),
        ('{"arrivals": {"kind": "poisson", "rate_per_s": 0}}', "mapping.arrivals.rate_per_s"),
        ('{"format": "splunk"}', "format"),
    ],
)
def test_a_wrong_mapping_is_refused_by_name(api: TestClient, mapping: str, field: str) -> None:
    answer = post(api, "", CSV, mapping=mapping)
    assert answer.status_code == 400
    assert answer.json()["field"] == field


def test_a_known_file_needs_no_mapping(api: TestClient) -> None:
    csv = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.0,5,3\n"
    assert post(api, "/mapping", csv).json()["format"] == "azure-2023"
    log = b"[2025-11-11 04:06:27] Decode batch, #running-req: 46, #token: 812, token usage: 0.01, #queue-req: 0, \n"
    assert post(api, "/mapping", log).json()["format"] == "sglang-log"
    assert post(api, "/mapping", b"\x89PNG\r\n\x1a\n").status_code == 422
