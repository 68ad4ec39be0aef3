"""Recording from an engine's /metrics: one scrape after the other, until told to stop."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

from services.record.recorder import Recorder
from workloads.errors import BadUsage, Unavailable
from workloads.traces.prometheus_steps import RUNNING, WANTED, ScrapeSteps
from workloads.traces.prometheus_text import Scrape, scrapes_of
from workloads.traces.step_record import RecordHead

MAX_ANSWER_BYTES = 32 << 20
TIMEOUT_S = 5.0

Stop = Callable[[float], bool]
"""Waits for so many seconds; True when it is time to stop."""


def poll(url: str, recorder: Recorder, stop: Stop, *, every_s: float = 5.0) -> None:
    """Scrape `url` every `every_s` seconds; an engine that does not answer leaves a gap in the record.

    Raises:
        BadUsage: not an http address, or it answers without a gauge of running requests.
        Unavailable: nothing answers at the first try.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise BadUsage(f"'{url}' is no http address", field="--url")
    steps = ScrapeSteps()
    first = fetch(url)
    _check(first, url)
    origin = "reconstruction" if any(s.name == "sglang:cuda_graph_passes_total" for s in first.samples) else "sample"
    recorder.head(RecordHead(url, ("decode_full",), ("requests",), origin, sample_every_s=every_s))  # type: ignore[arg-type]
    _take(recorder, steps, first)
    last_s = time.time()
    lost: str | None = None
    next_s = time.monotonic()
    while True:
        # An absolute clock: the time that a scrape takes does not stretch the interval.
        next_s = max(next_s + every_s, time.monotonic())
        if stop(next_s - time.monotonic()):
            break
        try:
            scrape = fetch(url)
        except Unavailable as error:
            lost = lost or error.message
            continue
        if lost is not None:
            recorder.gap(last_s, time.time(), lost)
            lost = None
        _take(recorder, steps, scrape)
        last_s = time.time()
    if lost is not None:
        recorder.gap(last_s, time.time(), lost)


def fetch(url: str) -> Scrape:
    """One scrape, with the time of its answer.

    Raises:
        Unavailable: no answer, or one that is too large.
    """
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # the scheme was checked
            data = answer.read(MAX_ANSWER_BYTES + 1)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise Unavailable(f"{url} does not answer: {getattr(error, 'reason', None) or error}") from None
    if len(data) > MAX_ANSWER_BYTES:
        raise Unavailable(f"{url} answers with more than {MAX_ANSWER_BYTES >> 20} MiB")
    lines = enumerate(data.decode("utf-8", errors="replace").splitlines(), 1)
    found = Scrape(time.time(), 1)
    for scrape in scrapes_of(lines, WANTED):
        found.samples.extend(scrape.samples)
    return found


def _check(scrape: Scrape, url: str) -> None:
    if not any(sample.name in RUNNING for sample in scrape.samples):
        raise BadUsage(
            f"{url} has no gauge of running requests ({', '.join(RUNNING)}); SGLang needs --enable-metrics",
            field="--url",
        )


def _take(recorder: Recorder, steps: ScrapeSteps, scrape: Scrape) -> None:
    restarts = steps.restarts
    rows = [row for row in steps.feed(scrape) if row.get("reason") is None]
    if steps.restarts > restarts and scrape.time_s is not None:
        recorder.gap(scrape.time_s, scrape.time_s, "counters started again: the engine restarted")
    recorder.observe(steps.observation())
    recorder.rows(rows)
