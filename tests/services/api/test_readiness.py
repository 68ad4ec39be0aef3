"""/readyz says what is missing, all of it; /healthz does not care."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from starlette.testclient import TestClient


def test_a_folder_that_cannot_be_written_is_not_ready(api: TestClient, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "traces").write_text("a file, where a folder should be")
    answer = api.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "cannot keep traces in" in answer.json()["detail"] and answer.headers["retry-after"]
    assert api.get("/healthz").status_code == 200


def test_a_ray_head_that_is_gone_is_named(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        address = f"127.0.0.1:{head.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert api.get("/readyz").json() == {"status": "ready"}
    assert f"the Ray head at {address} does not answer" in api.get("/readyz").json()["detail"]
