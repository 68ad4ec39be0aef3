"""The real stack on free ports, and a real browser before it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

READY_TIMEOUT_S = 60.0
expect.set_options(timeout=20_000)  # two cores, shared with the browser and a sweep
FAILED = pytest.StashKey[bool]()
WIDTH_PX, HEIGHT_PX = 1440, 900
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if Path(item.fspath).parent == Path(__file__).parent]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
    # One stack serves all of them, and the main job begins with an empty one.
    ours.sort(key=lambda item: Path(item.fspath).name != "test_main_job.py")
    items[:] = [item for item in items if item not in ours] + ours


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@dataclass(frozen=True)
class Stack:
    """A running Captune."""

    api_url: str
    dashboard_url: str
    log: Path


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """API, runner and dashboard as `captune serve` starts them, over an empty database."""
    folder = tmp_path_factory.mktemp("captune")
    api_port, dashboard_port = _free_port(), _free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CAPTUNE_")}
    environment |= {"CAPTUNE_DATA_DIR": str(folder / "data"), "HOME": str(folder)}
    command = [sys.executable, "-c", "from services.cli.main import main; main()", "serve"]
    command += ["--api-port", str(api_port), "--dashboard-port", str(dashboard_port)]
    log = folder / "serve.log"
    running = Stack(f"http://127.0.0.1:{api_port}", f"http://127.0.0.1:{dashboard_port}", log)
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output)
    try:
        _wait_ready(process, running)
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_ready(process: subprocess.Popen[bytes], stack: Stack) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, stack.log.read_text()
        try:
            with urllib.request.urlopen(f"{stack.dashboard_url}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"not ready within {READY_TIMEOUT_S} s:\n{stack.log.read_text()}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium or Chrome on the PATH, else Playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next((found for name in names if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def warm(stack: Stack, browser: Browser) -> None:
    """The first visit imports the dashboard, which takes its time on a busy machine."""
    page = browser.new_page()
    page.goto(stack.dashboard_url)
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=READY_TIMEOUT_S * 1000)
    page.close()


@pytest.fixture(params=["light"])
def page(warm: None, browser: Browser, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": WIDTH_PX, "height": HEIGHT_PX}, color_scheme=request.param, accept_downloads=True
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    yield page
    if request.node.stash.get(FAILED, False):
        picture = tmp_path / "failed.png"
        page.screenshot(path=picture)
        print(f"the page as it was when the test failed: {picture}")
    context.close()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """Where screenshots go: docs/screenshots when CAPTUNE_SCREENSHOTS is set, else a temporary folder."""
    if os.environ.get("CAPTUNE_SCREENSHOTS"):
        return repository / "docs" / "screenshots"
    return tmp_path_factory.mktemp("screenshots")


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The public Azure conversation trace where it is on this machine, else 1,500 requests in its format."""
    public = repository.parent / "shared" / "traces" / "azure" / "AzureLLMInferenceTrace_conv.csv"
    if public.is_file():
        return public
    path = tmp_path_factory.mktemp("trace") / "conversation.csv"
    path.write_text(_azure_csv(requests=1_500))
    return path


@pytest.fixture(scope="session")
def tuned(stack: Stack, recording: Path) -> dict[str, str]:
    """A stored trace and a finished sweep, made over the API: `trace_id`, `sweep_id`, `recommendation_id`."""
    api = f"{stack.api_url}/api/v1"
    with recording.open("rb") as file:
        trace = httpx.post(f"{api}/traces", files={"file": (recording.name, file)}, timeout=60).json()
    wanted = {"trace_id": trace["id"], "engine": "vllm@0.33.0", "profile": "h200-llama-3.1-8b", "trials": 24}
    wanted |= {"options": {"max_num_seqs": "512"}, "serving": {"policy": "decode", "load": 4.0}}
    sweep = httpx.post(f"{api}/sweeps", json=wanted).json()
    deadline = time.monotonic() + 90
    while sweep["recommendation_id"] is None:
        assert time.monotonic() < deadline and sweep["state"] != "failed", sweep
        time.sleep(0.3)
        sweep = httpx.get(f"{api}/sweeps/{sweep['id']}").json()
    return {"trace_id": trace["id"], "sweep_id": sweep["id"], "recommendation_id": sweep["recommendation_id"]}


def _azure_csv(requests: int) -> str:
    random = np.random.default_rng(7)
    arrival_us = np.cumsum(random.exponential(180_000, requests)).astype(np.int64)
    prompt = np.clip(random.lognormal(6.5, 1.0, requests), 8, 8_000).astype(int)
    answer = np.clip(random.lognormal(5.0, 0.7, requests), 2, 1_000).astype(int)
    start = np.datetime64("2023-11-16T18:15:46.000000")
    rows = [
        f"{str(start + np.timedelta64(int(at), 'us')).replace('T', ' ')}0,{p},{a}"
        for at, p, a in zip(arrival_us, prompt, answer, strict=True)
    ]
    return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n"
