"""Reports over HTTP: by recommendation and by sweep, in both forms, sealed and sent once."""

from __future__ import annotations

from starlette.testclient import TestClient

from db.records import NewSweep
from db.store import Store
from tests.services.report.made import made
from tests.stores import read_result


def test_a_report_of_a_recommendation_in_both_forms(api: TestClient, store: Store) -> None:
    found = made()
    stored = store.recommendations.add(
        found.document(), engine=found.engine, options=found.options, verdict=found.verdict
    )
    path = f"/api/v1/recommendations/{stored.id}/report"
    page, text = api.get(path), api.get(path, params={"format": "markdown"})
    assert page.headers["content-type"] == "text/html; charset=utf-8" and page.text.startswith("<!doctype html>")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert (
        f"captune export --recommendation {stored.id}" in page.text and f"| recommendation | {stored.id} |" in text.text
    )
    assert api.get(path, headers={"If-None-Match": page.headers["etag"]}).status_code == 304
    assert page.headers["etag"] != text.headers["etag"]
    assert api.get(path, params={"format": "pdf"}).status_code == 422


def test_a_report_of_a_sweep_and_of_what_is_not_there(api: TestClient, store: Store) -> None:
    trace = store.traces.add(read_result(), "day.csv")
    sweep = store.sweeps.create(NewSweep(trace.id, "vllm@0.33.0", "h200-qwen3-0.6b"))
    path = f"/api/v1/sweeps/{sweep.id}/report"
    early = api.get(path)
    assert early.status_code == 404 and "has no recommendation to report" in early.json()["detail"]
    claim = store.queue.claim("runner", 60.0)
    assert claim is not None
    store.queue.complete(claim, made().document(), made().verdict)
    assert "Capture list of vllm@0.33.0" in api.get(path).text
    for nothing in ("sweeps", "recommendations"):
        assert api.get(f"/api/v1/{nothing}/nothing/report").status_code == 404
