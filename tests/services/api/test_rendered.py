"""Reads that cost little: what is known already is not sent again, and what changes is seen."""

from __future__ import annotations

from starlette.testclient import TestClient

from db.records import NewSweep
from db.store import Store
from services.api.rendered import Rendered
from tests.stores import read_result

DOCUMENT = {"lists": {"capture": [1, 2, 4]}}


def again(api: TestClient, path: str, tag: str) -> int:
    return int(api.get(path, headers={"If-None-Match": tag}).status_code)


def test_a_poll_of_a_sweep_sees_every_change_and_nothing_twice(api: TestClient, store: Store) -> None:
    trace = store.traces.add(read_result(), "day.csv")
    sweep = store.sweeps.create(NewSweep(trace.id, "vllm@0.33.0", "h200-qwen3-0.6b"))
    path = f"/api/v1/sweeps/{sweep.id}"
    claim = store.queue.claim("runner", 60.0)
    assert claim is not None
    tags = [api.get(path).headers["etag"]]
    for change in (
        lambda: store.queue.progress(claim, "tuning"),
        lambda: store.queue.record_trial(claim, 0, "failed", {"number": 0}),
        lambda: store.queue.release(claim, failed=True, retry_after_s=5.0),
        lambda: store.sweeps.cancel(sweep.id),
        lambda: store.sweeps.resume(sweep.id),
        lambda: store.sweeps.cancel(sweep.id),
        lambda: store.traces.delete(trace.id),
    ):
        assert again(api, path, tags[-1]) == 304
        change()
        assert again(api, path, tags[-1]) == 200
        tags.append(api.get(path).headers["etag"])
    assert len(set(tags)) == len(tags)
    assert api.get(path).json()["trace_id"] is None


def test_trials_are_sent_once(api: TestClient, store: Store) -> None:
    trace = store.traces.add(read_result(), "day.csv")
    sweep = store.sweeps.create(NewSweep(trace.id, "vllm@0.33.0", "h200-qwen3-0.6b"))
    path = f"/api/v1/sweeps/{sweep.id}/trials"
    claim = store.queue.claim("runner", 60.0)
    assert claim is not None
    first = api.get(path)
    assert first.json() == {"items": [], "next_after": -1}
    assert again(api, path, first.headers["etag"]) == 304
    trial: dict[str, object] = {"number": 0, "source": "default", "state": "failed", "scorecard": None}
    trial |= {"params": {}, "lists": {}, "values": {}}
    store.queue.record_trial(claim, 0, "failed", trial)
    assert again(api, path, first.headers["etag"]) == 200
    assert api.get(path).json()["next_after"] == 0


def test_an_export_differs_by_what_was_asked_for(api: TestClient, store: Store) -> None:
    options = {"max_num_seqs": "8"}
    stored = store.recommendations.add(DOCUMENT, engine="vllm@0.33.0", options=options, verdict="try")
    path = f"/api/v1/recommendations/{stored.id}/export"
    plain, text = api.get(path), api.get(path, params={"format": "text"})
    other = api.get(path, params={"engine": "sglang@0.5.23"})
    assert text.text == plain.json()["text"] and text.headers["content-type"].startswith("text/plain")
    assert "attachment" in text.headers["content-disposition"]
    assert len({answer.headers["etag"] for answer in (plain, text, other)}) == 3
    assert again(api, path, plain.headers["etag"]) == 304
    assert api.get(path).json() == plain.json()
    assert api.get(path, params={"engine": "nothing@1"}).status_code == 400
    assert [item["lists"] for item in api.get("/api/v1/recommendations").json()["items"]] == [DOCUMENT["lists"]]


def test_what_is_kept_is_bounded_and_the_oldest_goes(api: TestClient) -> None:
    rendered = Rendered(most_bytes=72)
    made: list[int] = []

    def text_of(number: int) -> str:
        made.append(number)
        return str(number) * 7

    def ask(number: int) -> None:
        rendered._body(f"tag {number}", lambda: text_of(number))

    for number in (*range(9), 8, 9, 0, 9):
        ask(number)
    assert made == [*range(9), 9, 0]
