"""Tokens, scopes, the rate limit and the audit table, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from db.store import Store
from services.api.app import create_app
from services.api.limits import RateLimiter
from services.settings import Settings
from tests.services.api.test_traces import azure_csv, upload

LINT = {"engine": "vllm@0.33.0", "default": True}


@pytest.fixture
def guarded(settings: Settings, store: Store) -> Iterator[TestClient]:
    """An API that listens where others can reach it."""
    with TestClient(
        create_app(replace(settings, api_host="0.0.0.0", api_token="from-the-environment"), store)
    ) as client:
        yield client


def bearer(store: Store, scope: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {store.tokens.create(scope, scope)[1]}"}  # type: ignore[arg-type]


def test_without_a_token_a_reachable_api_says_only_that_it_lives(guarded: TestClient) -> None:
    refused = guarded.get("/api/v1/traces")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorised")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert refused.headers["content-type"] == "application/problem+json"
    assert guarded.get("/api/v1/traces", headers={"Authorization": "Bearer guess"}).status_code == 401
    assert guarded.get("/api/v1/nothing").status_code == 401
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
        assert guarded.get(path).status_code == 200


def test_a_scope_allows_what_it_says(guarded: TestClient, store: Store) -> None:
    read, write, admin = (bearer(store, scope) for scope in ("read", "write", "admin"))
    fixed = {"Authorization": "Bearer from-the-environment"}
    for headers in (read, write, admin, fixed):
        assert guarded.get("/api/v1/traces", headers=headers).status_code == 200
        assert guarded.post("/api/v1/lint", json=LINT, headers=headers).status_code == 200
    refused = guarded.delete("/api/v1/traces/x", headers=read)
    assert (refused.status_code, refused.json()["detail"]) == (403, "needs a token of scope write; this one has read")
    assert guarded.delete("/api/v1/traces/x", headers=write).status_code == 404
    assert guarded.delete("/api/v1/traces/x", headers=fixed).status_code == 404
    assert guarded.get("/api/v1/audit-log", headers=write).status_code == 403
    assert guarded.get("/api/v1/audit-log", headers=admin).status_code == 200


def test_a_stranger_cannot_upload(guarded: TestClient, store: Store) -> None:
    assert upload(guarded, "conv.csv", azure_csv(20)).status_code == 401
    assert store.traces.page().items == []


def test_a_revoked_token_is_refused_within_seconds(
    guarded: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.api.access.REMEMBERED_S", 0.0)
    token, text = store.tokens.create("ci", "read")
    headers = {"Authorization": f"Bearer {text}"}
    assert guarded.get("/api/v1/traces", headers=headers).status_code == 200
    store.tokens.revoke(token.id)
    assert guarded.get("/api/v1/traces", headers=headers).status_code == 401


def test_loopback_needs_no_token_but_takes_no_wrong_one(api: TestClient, store: Store) -> None:
    assert api.get("/api/v1/traces").status_code == 200
    assert api.get("/api/v1/traces", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert api.get("/api/v1/traces", headers=bearer(store, "read")).status_code == 200


def test_changes_are_written_down_and_questions_are_not(guarded: TestClient, store: Store) -> None:
    write, admin = bearer(store, "write"), bearer(store, "admin")
    guarded.post("/api/v1/lint", json=LINT, headers=write)
    guarded.get("/api/v1/traces", headers=write)
    guarded.delete("/api/v1/traces/x", headers=write)
    guarded.delete("/api/v1/traces/x")
    lines = guarded.get("/api/v1/audit-log", headers=admin).json()["items"]
    assert [(line["actor"], line["action"], line["target"], line["status"]) for line in lines] == [
        ("testclient", "DELETE", "/api/v1/traces/x", 401),
        ("write", "DELETE", "/api/v1/traces/x", 404),
    ]


def test_one_client_has_its_share_of_requests(settings: Settings, store: Store) -> None:
    with TestClient(create_app(replace(settings, rate_limit_per_s=0.5), store)) as client:
        answers = [client.get("/api/v1/engines") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert answers[-1].json()["code"] == "too_many_requests" and answers[-1].headers["retry-after"]
        assert client.get("/healthz").status_code == 200
        assert client.get("/api/v1/engines", headers=bearer(store, "read")).status_code == 200


def test_an_account_fills_up_again_and_never_above_its_burst() -> None:
    limiter = RateLimiter(2.0)
    assert [limiter.wait_s("a", 0.0) for _ in range(9)] == [0.0] * 8 + [0.5]
    assert limiter.wait_s("b", 0.0) == 0.0
    assert limiter.wait_s("a", 0.5) == 0.0
    assert [limiter.wait_s("a", 1000.0) > 0 for _ in range(9)] == [False] * 8 + [True]


@pytest.mark.parametrize(
    ("host", "needed"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("10.0.0.1", True), ("host", True)],
)
def test_where_the_api_listens_decides(settings: Settings, host: str, needed: bool) -> None:
    assert replace(settings, api_host=host).needs_tokens is needed
    assert "secret" not in repr(replace(settings, api_token="secret"))
