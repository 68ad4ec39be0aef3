"""Traces: what spans there are, what they say, and that nothing happens unless it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from db.store import Store
from services import telemetry
from services.api.app import create_app
from services.capture.pool import measure
from services.capture.spec import MeasureSpec
from services.logs import logged
from services.settings import Settings
from services.sweeps.job import run_sweep
from tests.services.sweeps.conftest import queue_sweep
from workloads.errors import MissingExtra

ROOT = Path(__file__).resolve().parents[2]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    kept = InMemorySpanExporter()
    telemetry.start("test", SimpleSpanProcessor(kept))
    yield kept
    telemetry.stop()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'captune.db'}", tmp_path) as opened:
        yield opened


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def about(span: ReadableSpan) -> dict[str, Any]:
    return {key.removeprefix("captune."): value for key, value in (span.attributes or {}).items()}


def test_a_request_is_a_span_of_the_trace_that_its_client_is_in(
    store: Store, tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    app = create_app(Settings(store.url, tmp_path), store)
    with TestClient(app) as api:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "mine-1"}
        answer = api.get("/api/v1/traces/nothing", headers=headers)
    assert answer.headers["x-request-id"] == "mine-1"
    (span,) = spans.get_finished_spans()
    assert span.context is not None and span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.name == "GET /traces/{trace_id}"
    assert about(span) == {
        "http.request.method": "GET",
        "url.path": "/api/v1/traces/nothing",
        "request": "mine-1",
        "http.response.status_code": 404,
    }


def test_a_sweep_has_a_span_a_trial(store: Store, spans: InMemorySpanExporter) -> None:
    sweep = queue_sweep(store, trials=3)
    claim = store.queue.claim("me", 60.0)
    assert claim is not None
    with telemetry.span("sweep", {"captune.sweep": sweep.id}):
        run_sweep(store, claim, lambda: False)
    (whole,) = named(spans, "sweep")
    trials = named(spans, "trial")
    assert [about(trial)["trial"] for trial in trials] == [0, 1, 2]
    assert {about(trial)["sweep"] for trial in trials} == {sweep.id}
    assert all(trial.parent == whole.context for trial in trials)
    assert all(before.end_time <= after.start_time for before, after in pairwise(trials))  # type: ignore[operator]


def test_a_measurement_has_a_span_a_capture(spans: InMemorySpanExporter) -> None:
    spec = MeasureSpec("tiny-llama", sizes=(1,), starts=1, repeats=1, iterations=1, warmup=1, device="cpu")
    with logged(sweep="abc"), telemetry.span("sweep", {"captune.sweep": "abc"}):
        measure(spec)
    (whole,), (capture,) = named(spans, "sweep"), named(spans, "capture")
    assert (about(capture)["sweep"], about(capture)["start"]) == ("abc", 0) and about(capture)["node"]
    assert capture.parent == whole.context


def test_nothing_is_traced_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in telemetry.SWITCHES:
        monkeypatch.delenv(name, raising=False)
    telemetry.start("test")
    with telemetry.span("work", {"captune.sweep": "x"}) as span:
        assert span is None and telemetry.begin("part", {}) is None


def test_without_the_extra_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(telemetry.SWITCHES[0], "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    with pytest.raises(MissingExtra, match=r"captune\[otel\]") as raised:
        telemetry.start("test")
    assert "\n" not in str(raised.value)


def test_a_service_says_so_and_ends_when_the_extra_is_missing(tmp_path: Path) -> None:
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sys\nsys.modules['opentelemetry.sdk.trace.export'] = None\n")
    environment = os.environ | {telemetry.SWITCHES[0]: "http://127.0.0.1:1", "CAPTUNE_DATA_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "services.api.main"],
        env=environment | {"PYTHONPATH": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 1 and "captune[otel]" in ran.stderr
    assert "Traceback" not in ran.stderr
