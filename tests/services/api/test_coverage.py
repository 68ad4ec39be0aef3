"""Scores, fronts, shapes and exports over HTTP: the figures of the command line, taken apart."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from db.store import Store
from services.contract.coverage import CoverageModel, FrontModel
from services.contract.shape import ShapeModel
from tests.services.api.test_traces import azure_csv, upload

SIZES = [1, 2, 4, 8, 9, 16, 32, 64, 128]


@pytest.fixture
def case(api: TestClient, profile_id: str) -> dict[str, Any]:
    trace_id = upload(api, "conv.csv", azure_csv()).json()["id"]
    serving = {"policy": "decode", "load": 2.0}
    return {
        "trace_id": trace_id,
        "engine": "vllm@0.33.0",
        "profile": profile_id,
        "options": {"max_num_seqs": "128"},
        "serving": serving,
    }


def scored(api: TestClient, case: dict[str, Any], **more: Any) -> CoverageModel:
    answer = api.post("/api/v1/score", json={**case, **more})
    assert answer.status_code == 200, answer.text
    return CoverageModel.model_validate(answer.json())


def test_buckets_add_up_to_the_scorecard(api: TestClient, case: dict[str, Any]) -> None:
    coverage = scored(api, case, lists={"capture": SIZES})
    card, steps = coverage.scorecard, coverage.families["decode_full"].counts
    total = sum(steps.values())
    assert [bucket.size for bucket in coverage.buckets] == SIZES
    assert sum(bucket.steps for bucket in coverage.buckets) == pytest.approx(total * card.hit_rate)
    assert sum(bucket.exact_steps for bucket in coverage.buckets) == pytest.approx(total * card.exact_hit_rate)
    padded = sum(bucket.padded_slots for bucket in coverage.buckets)
    executed = sum(bucket.steps * bucket.size for bucket in coverage.buckets)
    assert padded / executed == pytest.approx(card.padding_waste)
    spent = sum(bucket.steps * bucket.step_ms for bucket in coverage.buckets)
    assert spent / total == pytest.approx(card.mean_step_ms)
    assert all(bucket.without is None for bucket in coverage.buckets)


def test_dropping_a_size_is_what_scoring_the_shorter_list_says(api: TestClient, store: Store) -> None:
    counts = upload(api, "sizes.csv", b"size,count\n3,100\n8,40\n9,7\n60,3\n").json()["id"]
    profile = store.profiles.page(1).items or [store.profiles.add(_profile())]
    case = {"trace_id": counts, "engine": "vllm@0.33.0", "profile": profile[0].id}
    whole = scored(api, case, lists={"capture": SIZES}, drops=True)
    for bucket in whole.buckets:
        rest = [size for size in SIZES if size != bucket.size]
        shorter = scored(api, case, lists={"capture": rest}).scorecard
        assert bucket.without is not None
        assert bucket.without.mean_step_ms == shorter.mean_step_ms
        assert bucket.without.worst_regret == shorter.worst_regret
        if bucket.steps and bucket.saved_ms_per_step is not None:
            lost = bucket.without.mean_step_ms - whole.scorecard.mean_step_ms
            assert lost == pytest.approx(bucket.saved_ms_per_step * bucket.steps / 150)


def _profile() -> Any:
    from tests.stores import cost_profile

    return cost_profile(largest=128)


def test_break_even_is_capture_time_over_time_saved(api: TestClient, case: dict[str, Any]) -> None:
    for bucket in scored(api, case, lists={"capture": SIZES}).buckets:
        assert bucket.fallback_ms is not None and bucket.capture_s is not None
        expected = 1000 * bucket.capture_s / (bucket.fallback_ms - bucket.step_ms)
        assert bucket.break_even_steps == pytest.approx(expected)


def test_the_default_is_scored_when_no_list_is_named(api: TestClient, case: dict[str, Any]) -> None:
    coverage = scored(api, case)
    assert coverage.requested["capture"][:3] == (1, 2, 4)
    assert coverage.serving is not None and coverage.steps_per_s is not None
    # A request trace is simulated under the list; the histogram route does the same with the same list.
    query = {"engine": case["engine"], "set": "max_num_seqs=128", "profile": case["profile"]}
    answer = api.get(f"/api/v1/traces/{case['trace_id']}/histogram", params={**query, **case["serving"]}).json()
    assert answer["families"]["decode_full"]["counts"] == {
        str(size): steps for size, steps in coverage.families["decode_full"].counts.items()
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lists": {"decode": [1]}}, "no list 'decode'"),
        ({"lists": {"capture": []}}, "at least one size"),
        ({"lists": {"capture": [0, 4]}}, "at least 1"),
        ({"engine": "sglang@99"}, ""),
        ({"trace_id": "gone"}, "no trace"),
        ({"profile": "gone"}, "no profile"),
        ({"options": {"nonsense": "1"}}, "nonsense"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_a_sentence(
    api: TestClient, case: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    answer = api.post("/api/v1/score", json={**case, **change})
    if words:
        assert answer.status_code in (400, 404, 422) and words in answer.json()["detail"], answer.text
    else:
        assert answer.status_code < 500


def test_no_list_of_the_front_is_beaten_by_its_own_score(api: TestClient, case: dict[str, Any]) -> None:
    answer = api.post("/api/v1/solve", json={**case, "budget": {"regret": 0.2, "max_length": 12}})
    front = FrontModel.model_validate(answer.json())
    assert front.optimal and front.front
    times = [point.mean_step_ms for point in front.front]
    assert times == sorted(times, reverse=True) and min(times) >= front.floor_step_ms
    assert all(point.worst_regret is not None and point.worst_regret <= 0.2 + 1e-9 for point in front.front)


def test_a_shape_has_few_points_and_loses_no_request(api: TestClient, case: dict[str, Any]) -> None:
    query = {"engine": case["engine"], "set": "max_num_seqs=128", "profile": case["profile"], **case["serving"]}
    at = f"/api/v1/traces/{case['trace_id']}/shape"
    answer = api.get(at, params={**query, "first_to": 0.4, "second_from": 0.4})
    shape = ShapeModel.model_validate(answer.json())
    assert shape.arrivals and shape.input_tokens and shape.output_tokens and shape.heat_map and shape.drift
    for part in (shape.arrivals, shape.input_tokens, shape.output_tokens):
        assert sum(part.counts) == 300 and len(part.counts) <= 96
    steps = sum(sum(row) for row in shape.heat_map.steps)
    assert steps == pytest.approx(sum(shape.drift.steps))
    assert 0 <= shape.drift.distance <= 1
    assert shape.drift.windows_s[0] == (0.0, shape.drift.windows_s[1][0])
    assert shape.ceilings["vllm@0.33.0"][0] == 512 and shape.step_ms
    same = ShapeModel.model_validate(api.get(at, params={**query, "first_to": 1, "second_from": 0}).json()).drift
    assert same and same.distance == 0 and same.steps[0] == same.steps[1] == steps
    refused = api.get(at, params={**query, "first_from": 0.5})
    assert refused.status_code == 400 and "first_from: must be below first_to" in refused.json()["detail"]


def test_a_histogram_has_no_shape_in_time(api: TestClient) -> None:
    trace_id = upload(api, "sizes.csv", b"size,count\n3,100\n700,40\n").json()["id"]
    shape = ShapeModel.model_validate(api.get(f"/api/v1/traces/{trace_id}/shape").json())
    assert shape.heat_map is None and shape.drift is None and shape.arrivals is None
    assert shape.ceilings["vllm@0.33.0"] == (512, pytest.approx(40 / 140))


def test_any_list_is_exported_with_its_lint(api: TestClient) -> None:
    wanted = {"engine": "vllm@0.33.0", "lists": {"capture": [1, 2, 3, 700]}, "options": {"max_num_seqs": "512"}}
    answer = api.post("/api/v1/export", json=wanted)
    assert answer.status_code == 200, answer.text
    export = answer.json()
    assert "cudagraph" in export["text"] and export["requested"] == {"capture": [1, 2, 3, 700]}
    assert export["effective"]
    assert api.post("/api/v1/export", json={**wanted, "lists": {"nope": [1]}}).status_code == 400


def test_an_export_says_what_changes_against_what_runs_today(api: TestClient) -> None:
    wanted = {"engine": "sglang@0.5.23", "lists": {"decode": [1, 2, 4, 160]}}
    today = "python -m sglang.launch_server --model-path m --cuda-graph-bs 1 2 8"
    diff = api.post("/api/v1/export", json={**wanted, "running": today}).json()["diff"]
    assert "\n-1 2 8\n+1 2 4 160\n" in diff
    assert api.post("/api/v1/export", json=wanted).json()["diff"] is None
    for other in ("vllm serve m --max-num-seqs 64", "make coffee"):
        refused = api.post("/api/v1/export", json={**wanted, "running": other})
        assert refused.status_code == 400 and refused.json()["field"] == "running", refused.text


def test_a_trace_is_renamed_and_tagged_and_keeps_its_id(api: TestClient) -> None:
    trace = upload(api, "sizes.csv", b"size,count\n3,100\n").json()
    assert (trace["tags"], trace["origin"]) == ([], "given")
    at = f"/api/v1/traces/{trace['id']}"
    changed = api.patch(at, json={"name": "monday, eu-west"}).json()
    assert (changed["id"], changed["name"]) == (trace["id"], "monday, eu-west")
    assert api.get(at).json()["name"] == "monday, eu-west"
    tagged = api.patch(at, json={"tags": ["EU-west", "chat"]}).json()
    assert (tagged["name"], tagged["tags"]) == ("monday, eu-west", ["chat", "eu-west"])
    for tag, found in (("chat", 1), ("cha", 0)):
        assert len(api.get("/api/v1/traces", params={"tag": tag}).json()["items"]) == found
    assert api.patch(at, json={"name": " "}).status_code == 422
    assert api.patch(at, json={"tags": [""]}).status_code == 422
    assert api.patch("/api/v1/traces/gone", json={"name": "x"}).status_code == 404


def test_the_importance_of_an_unknown_sweep_is_not_found(api: TestClient) -> None:
    assert api.get("/api/v1/sweeps/gone/importance").status_code == 404


def test_load_curves_hold_the_default_and_every_list(api: TestClient, case: dict[str, Any]) -> None:
    answer = api.post("/api/v1/load-curves", json={**case, "lists": {"short": [1, 2]}, "points": 5})
    assert answer.status_code == 200, answer.text
    curves = answer.json()
    assert list(curves["curves"]) == ["default", "short"] and len(curves["loads"]) == 5
    assert all(len(curve["reports"]) == 5 for curve in curves["curves"].values())
    counts = upload(api, "sizes.csv", b"size,count\n3,100\n").json()["id"]
    refused = api.post("/api/v1/load-curves", json={**case, "trace_id": counts})
    assert refused.status_code in (400, 422) and "another load" in refused.json()["detail"]
