"""The main job over HTTP: upload, tune in a child process, follow, export; and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from db.store import Store
from services.contract.export import ExportModel
from services.contract.recommendation import RecommendationModel
from services.contract.sweep import SweepModel
from services.settings import Settings
from services.sweeps.runner import Runner
from tests.services.api.test_traces import azure_csv, upload


@pytest.fixture
def trace_id(api: TestClient) -> str:
    return str(upload(api, "conv.csv", azure_csv()).json()["id"])


@pytest.fixture
def job(trace_id: str, profile_id: str) -> dict[str, Any]:
    return {
        "trace_id": trace_id,
        "engine": "vllm@0.33.0",
        "profile": profile_id,
        "options": {"max_num_seqs": "128"},
        "serving": {"policy": "decode", "load": 2.0},
        "trials": 10,
    }


def test_from_an_upload_to_the_configuration_of_three_engines(
    api: TestClient, store: Store, settings: Settings, job: dict[str, Any]
) -> None:
    created = api.post("/api/v1/sweeps", json=job)
    assert created.status_code == 201, created.text
    sweep = SweepModel.model_validate(created.json())
    assert (sweep.state, sweep.trials_done) == ("queued", 0)
    runner = Runner(store, settings)
    try:
        assert runner.run_until_idle(90)
    finally:
        runner.close()
    sweep = SweepModel.model_validate(api.get(f"/api/v1/sweeps/{sweep.id}").json())
    assert (sweep.state, sweep.trials_done, sweep.error) == ("complete", 10, None)
    page = api.get(f"/api/v1/sweeps/{sweep.id}/trials", params={"after": 7}).json()
    assert ([trial["number"] for trial in page["items"]], page["next_after"]) == ([8, 9], 9)
    answer = api.get(f"/api/v1/recommendations/{sweep.recommendation_id}")
    result = RecommendationModel.model_validate(answer.json())
    assert result.scorecard.list_length < result.default.scorecard.list_length
    assert result.reasons and result.front and result.histogram["decode_full"]
    export = f"/api/v1/recommendations/{result.id}/export"
    own = ExportModel.model_validate(api.get(export).json())
    chosen = next(iter(result.lists.values()))
    assert own.engine == "vllm@0.33.0" and own.requested == result.lists
    assert str(chosen[-1]) in own.text and str(result.id) in own.text
    for engine in ("sglang@0.5.23", "tensorrt-llm@1.3"):
        other = ExportModel.model_validate(api.get(export, params={"engine": engine}).json())
        assert next(iter(other.requested.values())) == chosen
        assert other.watch
    text = api.get(export, headers={"Accept": "text/plain"})
    assert text.text == own.text and "attachment" in text.headers["content-disposition"]
    assert api.get(export, params={"format": "text"}).text == own.text
    assert api.get("/api/v1/sweeps", params={"state": "complete"}).json()["items"][0]["recommendation_id"] == result.id
    assert 'captune_sweeps{state="complete"} 1' in api.get("/metrics").text


def test_a_sweep_can_be_cancelled_once_it_is_queued(api: TestClient, job: dict[str, Any]) -> None:
    sweep = api.post("/api/v1/sweeps", json=job).json()
    assert api.post(f"/api/v1/sweeps/{sweep['id']}/cancel").json()["state"] == "cancelled"
    assert api.delete(f"/api/v1/traces/{job['trace_id']}").status_code == 204
    assert api.get(f"/api/v1/sweeps/{sweep['id']}").json()["trace_name"] == "conv.csv"


def test_a_trace_with_a_queued_sweep_cannot_be_deleted(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/sweeps", json=job)
    answer = api.delete(f"/api/v1/traces/{job['trace_id']}")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"trace_id": "nothing"}, 404, "nothing"),
        ({"engine": "nothing@1"}, 400, "not a known engine"),
        ({"options": {"no_such_key": "1"}}, 400, "no_such_key"),
        ({"profile": "nothing"}, 404, "no profile"),
        ({"profile": "measure"}, 422, "model"),
        ({"model": "tiny"}, 422, "model"),
        ({"worker": {"gpu": "H200"}}, 422, "worker"),
        ({"profile": "measure", "model": "tiny-llama", "worker": {"device": "cpu", "gpu": "H200"}}, 422, "cpu"),
        ({"profile": "measure", "model": "tiny-llama", "worker": {"memory_gib": -1}}, 422, "worker.memory_gib"),
        ({"trials": 0}, 422, "trials"),
        ({"budget": {"regret": -1}}, 422, "regret"),
        ({"budget": {"colour": 1}}, 422, "colour"),
        ({"serving": {"load": 0}}, 422, "load"),
        ({"seed": 2**40}, 422, "seed"),
        ({"colour": "red"}, 422, "colour"),
    ],
)
def test_a_wrong_job_is_refused_at_once(
    api: TestClient, job: dict[str, Any], change: dict[str, Any], status: int, word: str
) -> None:
    answer = api.post("/api/v1/sweeps", json={**job, **change})
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert word in problem["detail"]
    assert api.get("/api/v1/sweeps").json()["items"] == []
