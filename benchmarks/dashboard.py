"""How fast every page of the dashboard is over a full database: `make benchmark-dashboard`.

A real `captune serve` over 100 traces, 200 sweeps and 20,000 trials (one real sweep, copied row by row), and a real
Chromium. A page is usable when its title stands and Streamlit has run it to its end; it is drawn when every plot shows
its axes as well. The table goes into docs/dashboard.md, unless the run was a shorter one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import Page, sync_playwright
from sqlalchemy import create_engine, insert, select

from db.models import RecommendationRow, SweepRow, TrialRow
from db.store import Store
from workloads.traces.records import ReadResult, RequestTrace, RowCount

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "dashboard.md"
TRACES, SWEEPS, TRIALS_EACH, ROUNDS = 100, 200, 100, 5
USABLE_S = 1.5
CASE = "policy=decode&load=4&set=max_num_seqs%3D512"
PAGES = {
    "Start": "",
    "Traces": "traces",
    "Workload": "workload?" + CASE,
    "Coverage": "coverage?" + CASE,
    "Tune": "tune?" + CASE,
    "Sweeps": "sweeps?sweep={sweep}",
    "Result": "result?recommendation={result}",
    "Measurements": "measurements",
    "Feedback": "feedback?" + CASE,
    "Export": "export?recommendation={result}",
    "Fleet": "fleet",
    "Compare": "compare?" + CASE + "&basket=result~{result},list~1.2.4.8-256:8,profile~h200-llama-3.1-8b",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds from the link to the page: the first open, and medians over all of them."""

    page: str
    first_s: float
    usable_s: float
    drawn_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=SWEEPS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--page", action="append", choices=list(PAGES), help="only this one; can be repeated")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="captune-benchmark-") as folder:
        data = Path(folder) / "data"
        url = f"sqlite:///{data / 'captune.db'}"
        data.mkdir()
        _store_traces(url, data)
        with _served(Path(folder), data) as (api, dashboard):
            links = _fill(api, url, asked.sweeps)
            rows = _measure(dashboard, links, asked.page or list(PAGES), asked.rounds)
    slow = [row.page for row in rows if row.usable_s > USABLE_S]
    print(f"not usable within {USABLE_S} s: {', '.join(slow) or 'none'}", file=sys.stderr)
    if (asked.sweeps, asked.rounds, asked.page) == (SWEEPS, ROUNDS, None):
        _write(rows)


def _store_traces(url: str, data: Path) -> None:
    with Store(url, data) as store:
        for seed in range(TRACES):
            random = np.random.default_rng(seed)
            requests = 4_000
            arrival_s = np.cumsum(random.exponential(0.18, requests))
            trace = RequestTrace(
                arrival_s - arrival_s[0],
                np.clip(random.lognormal(6.5, 1.0, requests), 1, 8_000).astype(np.int64),
                np.clip(random.lognormal(5.0, 0.7, requests), 2, 1_000).astype(np.int64),
            )
            rows = RowCount(requests, requests, {}, {})
            store.traces.add(ReadResult("requests", "requests", rows, trace), f"day {seed + 1}.csv")


@contextmanager
def _served(folder: Path, data: Path) -> Iterator[tuple[str, str]]:
    ports = [_free_port(), _free_port()]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CAPTUNE_")}
    environment |= {"CAPTUNE_DATA_DIR": str(data), "HOME": str(folder)}
    command = [sys.executable, "-c", "from services.cli.main import main; main()", "serve"]
    command += ["--api-port", str(ports[0]), "--dashboard-port", str(ports[1])]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{ports[1]}/_stcore/health")
        yield f"http://127.0.0.1:{ports[0]}/api/v1", f"http://127.0.0.1:{ports[1]}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=5).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise SystemExit(f"{url} did not answer within two minutes")


def _fill(api: str, url: str, sweeps: int) -> dict[str, str]:
    """One real sweep over the API, then its copies in the database."""
    traces = [trace["id"] for trace in httpx.get(f"{api}/traces", params={"limit": TRACES}).json()["items"]]
    wanted: dict[str, Any] = {"trace_id": traces[0], "engine": "vllm@0.33.0", "profile": "h200-llama-3.1-8b"}
    wanted |= {"trials": TRIALS_EACH, "options": {"max_num_seqs": "512"}, "serving": {"policy": "decode", "load": 4.0}}
    sweep = httpx.post(f"{api}/sweeps", json=wanted).json()
    while sweep["state"] in ("queued", "running"):
        time.sleep(0.5)
        sweep = httpx.get(f"{api}/sweeps/{sweep['id']}").json()
    if sweep["state"] != "complete":
        raise SystemExit(f"the sweep ended as {sweep['state']}: {sweep['error']}")
    _copy(url, sweep["id"], traces, sweeps)
    counted = len(httpx.get(f"{api}/sweeps", params={"limit": 500}, timeout=60).json()["items"])
    print(f"{len(traces)} traces, {counted} sweeps, {counted * TRIALS_EACH:,} trials", file=sys.stderr)
    return {"sweep": sweep["id"], "result": sweep["recommendation_id"]}


def _copy(url: str, sweep_id: str, traces: list[str], sweeps: int) -> None:
    engine = create_engine(url)
    with engine.begin() as database:
        sweep = dict(database.execute(select(SweepRow.__table__).where(SweepRow.id == sweep_id)).mappings().one())
        trials = database.execute(select(TrialRow.__table__).where(TrialRow.sweep_id == sweep_id)).mappings().all()
        found = select(RecommendationRow.__table__).where(RecommendationRow.sweep_id == sweep_id)
        result = dict(database.execute(found).mappings().one())
        for i in range(1, sweeps):
            copy, earlier = f"copy{i:08d}", timedelta(minutes=i)
            at = {"created_at": sweep["created_at"] - earlier}
            own = {"id": copy, "trace_id": traces[i % len(traces)], **at}
            database.execute(insert(SweepRow.__table__).values({**sweep, **own}))
            database.execute(insert(TrialRow.__table__), [{**trial, "sweep_id": copy} for trial in trials])
            values = {**result, "id": copy, "sweep_id": copy, **at}
            database.execute(insert(RecommendationRow.__table__).values(values))
    engine.dispose()


def _measure(dashboard: str, links: dict[str, str], pages: list[str], rounds: int) -> list[Timing]:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next((found for name in names if (found := shutil.which(name))), None)
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--headless", "--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(60_000)
        _open(page, dashboard)  # the very first visit imports the dashboard
        for name in pages:
            times = [_open(page, f"{dashboard}/{PAGES[name].format(**links)}") for _ in range(rounds)]
            usable_s, drawn_s = (statistics.median(column) for column in zip(*times, strict=True))
            rows.append(Timing(name, times[0][0], usable_s, drawn_s))
            print(
                f"{name:<14} first {times[0][0]:.2f} s, median {usable_s:.2f} s, drawn {drawn_s:.2f} s", file=sys.stderr
            )
        browser.close()
    return rows


def _open(page: Page, url: str) -> tuple[float, float]:
    """Seconds until the page is usable, and until all of it is drawn."""
    page.goto("about:blank")
    start_s = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    usable_s = time.perf_counter() - start_s
    page.wait_for_function(
        "!document.querySelector('[data-testid=stSkeleton]') && "
        "[...document.querySelectorAll('[data-testid=stPlotlyChart]')].every(e => e.querySelector('.main-svg'))"
    )
    return usable_s, time.perf_counter() - start_s


def _write(rows: list[Timing]) -> None:
    load = os.getloadavg()[0]
    lines = [
        f"Seconds from the link, in headless Chromium on {os.cpu_count()} cores (load average {load:.1f} at the end):",
        "",
        "| page | first open | usable, median of five | drawn, median of five |",
        "|---|---|---|---|",
        *(f"| {row.page} | {row.first_s:.2f} | {row.usable_s:.2f} | {row.drawn_s:.2f} |" for row in rows),
    ]
    block = "<!-- benchmark -->\n" + "\n".join(lines) + "\n<!-- /benchmark -->"
    document = DOCUMENT.read_text()
    changed, times = re.subn(r"<!-- benchmark -->.*?<!-- /benchmark -->", lambda _: block, document, flags=re.DOTALL)
    if times != 1:
        raise SystemExit(f"{DOCUMENT} has no place for the table")
    DOCUMENT.write_text(changed)


if __name__ == "__main__":
    main()
