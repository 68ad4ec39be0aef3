"""Profiles, engines, lint, health, and how every failure looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from db.store import Store
from services.api.app import create_app
from services.settings import Settings
from tests.stores import cost_profile
from tuner.profile_file import dump_profile


def test_a_profile_is_imported_listed_and_shown(api: TestClient) -> None:
    document = json.loads(dump_profile(cost_profile()))
    imported = api.post("/api/v1/profiles", json=document)
    assert imported.status_code == 201
    summary = imported.json()
    assert summary["families"]["decode_full"]["inversions"] == 7
    assert summary in api.get("/api/v1/profiles").json()["items"]
    for ref in ("bench", summary["id"]):
        assert api.get(f"/api/v1/profiles/{ref}").json()["document"] == document
    assert api.post("/api/v1/profiles", json=document).json()["id"] == summary["id"]
    assert api.delete("/api/v1/profiles/bench").status_code == 204
    assert api.get("/api/v1/profiles/bench").status_code == 404


def test_a_wrong_profile_names_its_field(api: TestClient) -> None:
    document = json.loads(dump_profile(cost_profile()))
    document["families"]["decode_full"]["points"][3]["step_ms"] = -1
    problem = api.post("/api/v1/profiles", json=document).json()
    assert problem["status"] == 422
    assert problem["field"] == "families.decode_full.points.3.step_ms"


def test_lint_says_what_the_engine_makes_of_a_list(api: TestClient) -> None:
    body = {"engine": "vllm@0.33.0", "lists": {"capture": [1, 2, 600]}, "options": {"max_num_seqs": "64"}}
    answer = api.post("/api/v1/lint", json=body).json()
    assert answer["requested"] == {"capture": [1, 2, 600]}
    assert answer["graphs"] > 0 and answer["problems"]
    assert api.post("/api/v1/lint", json={"engine": "sglang", "default": True}).json()["requested"]["decode"]
    wrong = api.post("/api/v1/lint", json={"engine": "vllm", "lists": {"nope": [1]}})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "lists")
    assert api.post("/api/v1/lint", json={"engine": "vllm"}).status_code == 422


def test_engines_are_listed_with_what_a_client_needs(api: TestClient) -> None:
    specs = {item["name"]: item for item in api.get("/api/v1/engines").json()["items"]}
    assert set(specs) >= {"vllm", "sglang", "tensorrt-llm"}
    assert specs["sglang"]["list_names"][0] == "decode"


def test_health_and_metrics(api: TestClient) -> None:
    assert api.get("/healthz").json() == {"status": "ok"}
    assert api.get("/readyz").json() == {"status": "ready"}
    api.get("/api/v1/traces/nothing")
    text = api.get("/metrics").text
    assert 'captune_sweeps{state="queued"} 0' in text
    assert 'captune_http_answers_total{class="4xx"} 1' in text
    assert "captune_oldest_queued_seconds 0.0" in text and 'captune_workers{state="busy"} 0' in text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("GET", "/api/v1/traces/nothing", 404, "not_found"),
        ("GET", "/api/v1/recommendations/nothing", 404, "not_found"),
        ("GET", "/api/v1/sweeps/nothing/trials", 404, "not_found"),
        ("PUT", "/api/v1/traces", 405, "method_not_allowed"),
        ("GET", "/api/v1/traces?limit=0", 422, "bad_input"),
        ("GET", "/api/v1/traces?after=yesterday", 400, "bad_usage"),
        ("GET", "/api/v1/sweeps?colour=red", 422, "bad_input"),
        ("POST", "/api/v1/sweeps", 422, "bad_input"),
    ],
)
def test_every_failure_is_a_problem_document(api: TestClient, method: str, path: str, status: int, code: str) -> None:
    answer = api.request(method, path)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["detail"]


def test_a_refused_method_names_the_allowed_ones(api: TestClient) -> None:
    assert api.put("/api/v1/traces").headers["allow"] == "GET, POST"
    assert api.put("/api/v1/traces/x").headers["allow"] == "DELETE, GET, PATCH"


def test_nul_bytes_are_no_server_error(api: TestClient) -> None:
    assert api.get("/api/v1/traces/%00").status_code in (404, 422)
    assert api.get("/api/v1/profiles/a%00b").status_code in (404, 422)


def test_a_web_page_of_another_site_cannot_reach_a_local_api(api: TestClient) -> None:
    answer = api.post("/api/v1/lint", json={"engine": "vllm", "default": True}, headers={"Origin": "https://evil.test"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert api.get("/healthz", headers={"Origin": "http://testserver"}).status_code == 200


@pytest.fixture
def lost_api(tmp_path: Path) -> Iterator[TestClient]:
    """An API whose database file has become something else while it runs."""
    settings = Settings(f"sqlite:///{tmp_path / 'captune.db'}", tmp_path)
    with Store(settings.database_url, tmp_path) as store:
        store.close()
        for file in tmp_path.glob("captune.db*"):
            file.unlink()
        (tmp_path / "captune.db").mkdir()
        with TestClient(create_app(settings, store)) as client:
            yield client


def test_a_lost_database_is_said_and_the_process_stays_alive(lost_api: TestClient) -> None:
    for path in ("/readyz", "/api/v1/traces"):
        answer = lost_api.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"]
    assert lost_api.get("/healthz").status_code == 200


def test_the_openapi_document_covers_every_route(api: TestClient) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    wanted = ("/traces", "/sweeps/{sweep_id}/trials", "/recommendations/{recommendation_id}/export", "/lint")
    assert {f"/api/v1{path}" for path in wanted} <= set(paths)
    assert "405" in paths["/api/v1/traces"]["get"]["responses"]
