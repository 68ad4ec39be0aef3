"""Is it alive, is it ready, how much has it done; outside of the versioned part."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from services.api.context import InContext, InStore
from services.api.readiness import check_ready

router = APIRouter(tags=["health"])


@router.get("/healthz")
def alive() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def ready(store: InStore) -> dict[str, str]:
    """Database, disk and, where a cluster is configured, Ray are there too; else 503 with what is missing."""
    check_ready(store)
    return {"status": "ready"}


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(context: InContext) -> PlainTextResponse:
    """Prometheus text: sweeps by state, the age of the oldest waiting one, workers by state, HTTP answers by class."""
    store = context.store
    states = {"queued": 0, "running": 0, "complete": 0, "failed": 0, "cancelled": 0} | store.sweeps.counts()
    workers = Counter({"idle": 0, "busy": 0, "lost": 0, "refused": 0})
    workers.update(worker.state for worker in store.workers.list())
    lines = [
        "# HELP captune_sweeps Sweeps by state.",
        "# TYPE captune_sweeps gauge",
        *(f'captune_sweeps{{state="{state}"}} {count}' for state, count in states.items()),
        "# HELP captune_oldest_queued_seconds Age of the oldest sweep that is due and waits.",
        "# TYPE captune_oldest_queued_seconds gauge",
        f"captune_oldest_queued_seconds {store.queue.oldest_waiting_s():.1f}",
        "# HELP captune_workers Devices that measure, by state.",
        "# TYPE captune_workers gauge",
        *(f'captune_workers{{state="{state}"}} {count}' for state, count in workers.items()),
        "# HELP captune_event_streams Event streams open in this process.",
        "# TYPE captune_event_streams gauge",
        f"captune_event_streams {context.streams}",
        "# HELP captune_http_answers_total HTTP answers of this process by status class.",
        "# TYPE captune_http_answers_total counter",
        *(f'captune_http_answers_total{{class="{kind}"}} {n}' for kind, n in sorted(context.answers.items())),
    ]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
