"""Idempotency keys, ETags, event streams, resume and clone, measurements, schedules, workers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from db.store import Store
from db.workers import SeenWorker
from services.settings import Settings
from services.sweeps.runner import Runner
from tests.services.api.test_traces import azure_csv, upload
from tests.stores import cost_profile
from tuner.profile_file import dump_profile

V1 = "/api/v1"


@pytest.fixture
def trace_id(api: TestClient) -> str:
    return str(upload(api, "conv.csv", azure_csv(60)).json()["id"])


@pytest.fixture
def job(trace_id: str, profile_id: str) -> dict[str, Any]:
    options, serving = {"max_num_seqs": "128"}, {"policy": "decode", "load": 2.0}
    return {"trace_id": trace_id, "engine": "vllm@0.33.0", "profile": profile_id, "options": options} | {
        "serving": serving,
        "trials": 3,
    }


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def work(store: Store, settings: Settings) -> None:
    runner = Runner(store, settings)
    try:
        assert runner.run_until_idle(90)
    finally:
        runner.close()


def test_a_create_that_is_sent_twice_makes_one_thing(api: TestClient, job: dict[str, Any]) -> None:
    schedule = {"name": "n", "trace_name": "conv.csv", "job": {"engine": "vllm", "profile": job["profile"]}}
    measure = {"model": "tiny-llama", "name": "mine"}
    first = api.post(f"{V1}/sweeps", json=job)
    clone = f"{V1}/sweeps/{first.json()['id']}/clone"
    profile = json.loads(dump_profile(cost_profile("other")))
    creates = ((f"{V1}/sweeps", job), (f"{V1}/schedules", schedule), (f"{V1}/profiles/measure", measure))
    for path, body in (*creates, (clone, {"seed": 7}), (f"{V1}/profiles", profile)):
        one, two = (api.post(path, json=body, headers=keyed(path)) for _ in range(2))
        assert one.status_code == two.status_code in (201, 202), one.text
        assert one.json() == two.json()
        assert ("idempotent-replayed" in one.headers, two.headers["idempotent-replayed"]) == (False, "true")
        other = api.post(path, json=body)
        assert (other.json()["id"] == one.json()["id"]) is (path == f"{V1}/profiles")
    changed = api.post(f"{V1}/sweeps", json={**job, "seed": 9}, headers=keyed(f"{V1}/sweeps"))
    assert (changed.status_code, changed.json()["code"]) == (422, "key_reused")
    assert changed.json()["field"] == "Idempotency-Key"


def test_an_upload_that_is_sent_twice_is_one_trace(api: TestClient) -> None:
    def send(requests: int) -> Any:
        files = {"file": ("conv.csv", azure_csv(requests))}
        return api.post(f"{V1}/traces", files=files, headers=keyed("up"))

    one, two, other = send(50), send(50), send(51)
    assert one.status_code == two.status_code == 201 and one.json()["id"] == two.json()["id"]
    assert ("idempotent-replayed" in one.headers, two.headers["idempotent-replayed"]) == (False, "true")
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")


def test_an_answer_that_has_not_changed_is_not_sent_again(api: TestClient, job: dict[str, Any]) -> None:
    sweep = api.post(f"{V1}/sweeps", json=job).json()
    path = f"{V1}/sweeps/{sweep['id']}"
    first = api.get(path)
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = api.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    api.post(f"{path}/cancel")
    changed = api.get(path, headers={"If-None-Match": tag})
    assert changed.status_code == 200 and changed.headers["etag"] != tag
    assert "etag" not in api.get(f"{V1}/traces/nothing").headers


def events(text: str) -> list[tuple[str, str | None, Any]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def test_a_sweep_is_followed_as_events_and_from_where_one_was(
    api: TestClient, store: Store, settings: Settings, job: dict[str, Any]
) -> None:
    sweep = api.post(f"{V1}/sweeps", json=job).json()
    work(store, settings)
    answer = api.get(f"{V1}/sweeps/{sweep['id']}/events")
    assert answer.headers["content-type"].startswith("text/event-stream") and "etag" not in answer.headers
    told = events(answer.text)
    assert [(kind, number) for kind, number, _ in told] == [
        *(("trial", str(number)) for number in range(3)),
        ("sweep", None),
        ("end", None),
    ]
    assert told[-2][2] == api.get(f"{V1}/sweeps/{sweep['id']}").json()
    assert told[0][2] == api.get(f"{V1}/sweeps/{sweep['id']}/trials").json()["items"][0]
    for rest in (
        api.get(f"{V1}/sweeps/{sweep['id']}/events", params={"after": 1}),
        api.get(f"{V1}/sweeps/{sweep['id']}/events", headers={"Last-Event-ID": "1"}),
    ):
        assert [number for _, number, _ in events(rest.text)] == ["2", None, None]
    assert api.get(f"{V1}/sweeps/nothing/events").status_code == 404


def test_a_sweep_is_resumed_and_cloned(api: TestClient, store: Store, settings: Settings, job: dict[str, Any]) -> None:
    sweep = api.post(f"{V1}/sweeps", json={**job, "budget": {"regret": None}, "priority": 3}).json()
    path = f"{V1}/sweeps/{sweep['id']}"
    assert api.post(f"{path}/resume").json()["code"] == "conflict"
    api.post(f"{path}/cancel")
    assert api.post(f"{path}/resume").json()["state"] == "queued"
    work(store, settings)
    assert api.get(path).json()["state"] == "complete"
    assert api.post(f"{path}/resume").status_code == 409
    clone = api.post(f"{path}/clone", json={"engine": "vllm@0.11.0", "trials": 5})
    assert clone.status_code == 201 and clone.headers["location"] == f"{V1}/sweeps/{clone.json()['id']}"
    changed = {"id", "engine", "trials", "state", "trials_done", "recommendation_id", "priority", "phase"}
    changed |= {"created_at", "started_at", "finished_at"}
    assert {k: v for k, v in clone.json().items() if k not in changed} == {
        k: v for k, v in api.get(path).json().items() if k not in changed
    }
    assert (clone.json()["trials"], clone.json()["budget"]["regret"]) == (5, None)
    assert api.post(f"{path}/clone", json={"profile": "measure"}).status_code == 422
    assert api.post(f"{path}/clone").json()["engine"] == "vllm@0.33.0"
    found = api.get(f"{V1}/recommendations").json()["items"]
    assert [item["sweep_id"] for item in found] == [sweep["id"]]


def test_lists_are_read_page_by_page(api: TestClient, job: dict[str, Any]) -> None:
    made = [api.post(f"{V1}/sweeps", json=job).json()["id"] for _ in range(5)]
    for name in ("a", "b", "c"):
        api.post(f"{V1}/profiles", json=json.loads(dump_profile(cost_profile(name, largest=4))))
    for path, expected in ((f"{V1}/sweeps", made[::-1]), (f"{V1}/profiles", ["c", "b", "a", "bench"])):
        seen: list[str] = []
        after: str | None = None
        while True:
            page = api.get(path, params={"limit": 2} | ({"after": after} if after else {})).json()
            items = [item for item in page["items"] if item.get("origin") != "shipped"]
            assert len(items) <= 2
            seen += [item["id"] if "trials" in item else item["name"] for item in items]
            after = page["next_after"]
            if after is None:
                break
        assert seen == expected


def test_a_measurement_is_asked_for_followed_and_cancelled(api: TestClient) -> None:
    worker = {"device": "auto", "gpu": "H200", "memory_gib": 100.0}
    made = api.post(f"{V1}/profiles/measure", json={"model": "tiny-llama", "name": "mine", "worker": worker})
    assert made.status_code == 202
    assert made.json()["worker"] == worker
    path = made.headers["location"]
    assert api.get(path).json()["state"] == "queued"
    assert [item["id"] for item in api.get(f"{V1}/measurements").json()["items"]] == [made.json()["id"]]
    assert api.get(f"{V1}/sweeps").json()["items"] == []
    assert api.get(f"{V1}/sweeps/{made.json()['id']}").status_code == 404
    assert api.post(f"{path}/cancel").json()["state"] == "cancelled"
    for wrong in ({"model": "nothing", "name": "x"}, {"model": "../x", "name": "x"}, {"model": "tiny-llama"}):
        assert api.post(f"{V1}/profiles/measure", json=wrong).status_code in (400, 422)
    shipped = api.post(f"{V1}/profiles/measure", json={"model": "tiny-llama", "name": "h200-llama-3.1-8b"})
    assert shipped.status_code == 409


def test_a_schedule_queues_what_is_uploaded_later(
    api: TestClient, store: Store, settings: Settings, job: dict[str, Any]
) -> None:
    wish = {key: job[key] for key in ("engine", "profile", "options", "serving", "trials")}
    made = api.post(f"{V1}/schedules", json={"name": "each", "trace_name": "conv.csv", "job": wish})
    assert made.status_code == 201, made.text
    nightly = {"name": "nightly", "cron": "30 2 * * *", "job": {**wish, "trace_id": job["trace_id"]}}
    assert api.post(f"{V1}/schedules", json=nightly).json()["next_at"]
    work(store, settings)
    assert api.get(f"{V1}/sweeps").json()["items"] == []
    new = upload(api, "conv.csv", azure_csv(70)).json()["id"]
    runner = Runner(store, settings)
    runner._fire_schedules()
    sweeps = api.get(f"{V1}/sweeps").json()["items"]
    assert [(sweep["trace_id"], sweep["schedule_id"]) for sweep in sweeps] == [(new, made.json()["id"])]
    assert len(api.get(f"{V1}/schedules").json()["items"]) == 2
    assert api.delete(made.headers["location"]).status_code == 204
    assert api.get(made.headers["location"]).status_code == 404
    for wrong in ({"cron": "61 * * * *"}, {"cron": "x"}, {"trace_name": "a"}, {"job": {**wish, "engine": "no"}}):
        assert api.post(f"{V1}/schedules", json={**nightly, **wrong}).status_code in (400, 422)


def test_a_job_can_wait_for_its_time(api: TestClient, store: Store, job: dict[str, Any]) -> None:
    later = api.post(f"{V1}/sweeps", json={**job, "start_at": "2999-01-01T00:00:00Z"}).json()
    assert later["start_at"] == "2999-01-01T00:00:00Z"
    assert store.queue.claim("me", 60.0) is None
    assert api.post(f"{V1}/sweeps", json={**job, "start_at": "2999-01-01T00:00:00"}).status_code == 422


def test_every_body_of_the_document_has_an_example_that_its_model_accepts(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    kept = document["components"]["schemas"]

    def examples(schema: dict[str, Any]) -> list[Any]:
        name = schema.get("$ref", "").rpartition("/")[2]
        found = kept[name].get("examples", []) if name else []
        return [*found, *(each for part in schema.get("anyOf", []) for each in examples(part))]

    for path, item in document["paths"].items():
        for method, operation in item.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                given = [each["value"] for each in body.get("examples", {}).values()] or examples(body["schema"])
                assert given, f"{method} {path} has no example"
                for each in given:
                    answer = api.request(method, path.replace("{", "").replace("}", ""), json=each)
                    assert answer.status_code != 422, (path, answer.text)


def test_an_upload_can_be_watched(api: TestClient) -> None:
    content = azure_csv(50)
    files, headers = {"file": ("conv.csv", content)}, {"X-Request-ID": "my-upload"}
    assert api.get(f"{V1}/uploads/my-upload").status_code == 404
    assert api.post(f"{V1}/traces", files=files, headers=headers).status_code == 201
    seen = api.get(f"{V1}/uploads/my-upload").json()
    assert (seen["state"], seen["received_bytes"]) == ("stored", seen["expected_bytes"]) and seen[
        "received_bytes"
    ] > 500
    refused = api.post(f"{V1}/traces", files={"file": ("x.bin", b"\x00" * 99)}, headers={"X-Request-ID": "bad one"})
    assert refused.status_code == 422 and refused.headers["x-request-id"] != "bad one"
    assert api.get(f"{V1}/uploads/{refused.headers['x-request-id']}").json()["state"] == "refused"


def test_workers_are_listed(api: TestClient, store: Store) -> None:
    store.workers.seen([SeenWorker("node", "NVIDIA Test", 1024.0, "600.1", "2.13.0", "2.60.0", "3.11.2")])
    worker = api.get(f"{V1}/workers").json()["items"][0]
    assert (worker["device"], worker["state"], worker["torch"]) == ("NVIDIA Test", "idle", "2.13.0")


def test_what_can_be_measured_and_when_a_cron_line_fires_is_told_before_anything_is_asked_for(api: TestClient) -> None:
    models = {model["name"]: model for model in api.get(f"{V1}/models").json()["items"]}
    assert models["llama-3.1-8b"]["parameters"] > 8e9 and models["qwen3-30b-a3b"]["experts"] == 128
    times = api.get(f"{V1}/cron-times", params={"cron": "30 2 * * *"}).json()["times"]
    assert len(times) == 3 and all("T02:30:00" in time for time in times)
    wrong = api.get(f"{V1}/cron-times", params={"cron": "61 * * * *"})
    assert wrong.status_code == 400 and "minute is from 0 to 59" in wrong.json()["detail"]
